package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store/postgres/pgtest"
)

// TestStoreCommands prepares a database from nothing, and asks whether a server can use it.
func TestStoreCommands(t *testing.T) {
	database := pgtest.New(t)
	database.Exec(t, "postgres", "create database wf")
	url := database.URL("wf")
	file := filepath.Join(t.TempDir(), "store")
	if err := os.WriteFile(file, []byte(url+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args      []string
		code      int
		out, errs string
	}{
		{[]string{"check", "--store", url}, 1, "schema 0 of", "wfhost store init"},
		{[]string{"init", "--store", "file:" + file}, 1, "", "fsync is off"},
		{[]string{"check", "--store", "file:" + file}, 1, "no standby is synchronous", "fsync is off"},
		{[]string{"init", "--print"}, 0, "create table wfhost.run", ""},
		{[]string{"check"}, 1, "", "--store is missing"},
		{[]string{"check", "--store", "file:/nowhere"}, 1, "", "/nowhere"},
		{[]string{"check", "--store", "mysql://x"}, 1, "", "mysql://x"},
		{[]string{"check", "--store", "postgres://postgres:secret@127.0.0.1:1/x"}, 1, "", `database "x" on 127.0.0.1:1`},
	} {
		code, out, errs := command(append([]string{"store"}, c.args...)...)
		if (code == 0) != (c.code == 0) || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) || strings.Contains(errs, "secret") {
			t.Errorf("%v: exit %d, %q, %q; want %d, %q, %q", c.args, code, out, errs, c.code, c.out, c.errs)
		}
	}
	code, _, errs := command("serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--store", url)
	if code == 0 || !strings.Contains(errs, "fsync is off") {
		t.Errorf("serve: exit %d, %s", code, errs)
	}
}
