package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/cmd/wfhost/doctor"
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
		{[]string{"check", "--store", "file:" + file}, 1, "schema 5 of 5", "fsync is off"},
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

// TestDoctorChecksTheDatabase runs doctor for servers whose data is in a database: without tables, with settings that lose data, and
// with a database that is not there.
func TestDoctorChecksTheDatabase(t *testing.T) {
	database := pgtest.New(t, pgtest.Durable...)
	database.Exec(t, "postgres", "create database wf")
	database.Exec(t, "postgres", "create database fast")
	database.Exec(t, "postgres", "alter database fast set synchronous_commit = off")
	check := func(url string, flags ...string) doctor.Check {
		t.Helper()
		file := filepath.Join(t.TempDir(), "serve.yaml")
		text := "store: " + url + "\n" + strings.Join(flags, "\n")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, out, errs := command("doctor", "--config", file, "--no-server", "--format", "json")
		var r doctor.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err, out, errs)
		}
		at := slices.IndexFunc(r.Checks, func(c doctor.Check) bool { return c.Name == "database" })
		data := slices.ContainsFunc(r.Checks, func(c doctor.Check) bool { return c.Name == "data" || c.Name == "fsync" })
		if at < 0 || data {
			t.Fatalf("%+v", r.Checks)
		}
		return r.Checks[at]
	}
	wants := func(c doctor.Check, status doctor.Status, found string) {
		t.Helper()
		if c.Status != status || !strings.Contains(c.Found, found) || (c.Advice == "") != (status == doctor.OK) {
			t.Errorf("%+v, want %s: %s", c, status, found)
		}
	}
	wants(check(database.URL("wf")), doctor.Warn, "schema 0 of")
	if code, _, errs := command("store", "init", "--store", database.URL("wf")); code != 0 {
		t.Fatal(errs)
	}
	wants(check(database.URL("wf")), doctor.OK, "schema 5 of 5")
	wants(check(database.URL("fast")), doctor.Fail, "synchronous_commit is off")
	wants(check(database.URL("fast"), "store-unsafe: true"), doctor.Warn, "synchronous_commit is off")
	wants(check("postgres://postgres:secret@127.0.0.1:1/x"), doctor.Fail, `database "x" on 127.0.0.1:1`)
	wants(check("file:/nowhere"), doctor.Fail, "/nowhere")
}
