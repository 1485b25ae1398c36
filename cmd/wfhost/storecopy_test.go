package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store/postgres"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
	"github.com/wfhost/wfhost/store/transfer"
)

// TestStoreCopy moves the data of a server from a folder into a database and back, and serves it there: sleeping runs wake, signals
// arrive, tokens are known. It also copies a database beside a server, and refuses what must not be copied.
func TestStoreCopy(t *testing.T) {
	server := pgtest.New(t, pgtest.Durable...)
	server.Exec(t, "postgres", "create database wf")
	server.Exec(t, "postgres", "create database other")
	url, exe := server.URL("wf"), binary(t)
	data, back, backup := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "back"), filepath.Join(t.TempDir(), "backup")
	address := freeAddress(t)
	run := func(want int, says string, args ...string) {
		t.Helper()
		code, out, errs := command(append([]string{"--server", "http://" + address}, args...)...)
		if code != want || !strings.Contains(out+errs, says) || strings.Contains(errs, "secret") {
			t.Fatalf("%v: exit %d, want %d, saying %q:\n%s%s", args, code, want, says, out, errs)
		}
	}
	sleeping := func(id string) {
		t.Helper()
		deadline, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for out := ""; !strings.Contains(out, "sleeping"); {
			if _, out, _ = command("--server", "http://"+address, "show", id); deadline.Err() != nil {
				t.Fatal(out)
			}
		}
	}
	stop := startServer(t, exe, data, address)
	run(exitOK, "s01@1", "upload", "../../host/testdata/s01")
	for _, id := range []string{"r1", "r2", "r3"} {
		run(exitOK, id, "start", "s01", "--id", id, "--input", "86400000")
		sleeping(id)
	}
	run(exitConflict, "another process has it open; end the server that uses it", "store", "copy", "--from", data, "--to", url)
	stop(false)
	run(exitOK, "servers refuse "+data, "store", "copy", "--from", data, "--to", url)
	run(exitError, "the data was moved: what was in "+data, "serve", "--data", data, "--listen", "127.0.0.1:0")
	run(exitConflict, "the data was moved", "store", "copy", "--from", data, "--to", server.URL("other"))
	run(exitConflict, "rows in the table wfhost.", "store", "copy", "--from", data2(t), "--to", url)

	stop = startServer(t, exe, t.TempDir(), address, "--store", url)
	run(exitOK, "", "wake", "r1")
	run(exitOK, `"ab"`, "result", "r1", "--wait")
	run(exitOK, "nothing runs in the copy until", "store", "copy", "--from", url, "--to", backup, "--keep-source")
	run(exitOK, "3 of them replayed; 1 module, 0 large payloads (0 of them of deleted runs, 0 bytes), 0 commands; 0 problems", "verify", backup)
	run(exitConflict, "another process has it open", "store", "copy", "--from", url, "--to", back)
	stop(false)
	_, out, errs := command("store", "copy", "--from", url, "--to", back, "--format", "json")
	var r struct {
		From, To string
		Kinds    []struct {
			Kind    string
			Records int
		}
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Kinds) == 0 || r.To != back || !strings.Contains(r.From, "wf") {
		t.Fatal(err, out, errs)
	}
	run(exitError, "the data was moved", "serve", "--data", t.TempDir(), "--store", url, "--listen", "127.0.0.1:0")
	stop = startServer(t, exe, back, address)
	run(exitOK, "", "wake", "r2")
	run(exitOK, `"ab"`, "result", "r2", "--wait")
	stop(false)

	run(exitOK, "as it was before the move", "store", "reopen", "--store", data)
	run(exitError, "was not moved", "store", "reopen", "--store", data)
	stop = startServer(t, exe, data, address)
	run(exitOK, "", "wake", "r1")
	run(exitOK, `"ab"`, "result", "r1", "--wait")
	stop(false)
}

// data2 returns a folder with data.
func data2(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "other")
	h, err := host.Open(context.Background(), host.Config{Dir: dir})
	if err == nil {
		err = h.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestStoreCopyRefuses gives `store copy` what it cannot copy.
func TestStoreCopyRefuses(t *testing.T) {
	server := pgtest.New(t, pgtest.Durable...)
	server.Exec(t, "postgres", "create database empty")
	server.Exec(t, "postgres", "create database wf")
	server.Exec(t, "postgres", "create database fast")
	server.Exec(t, "postgres", "alter database fast set synchronous_commit = off")
	data, newer, damaged, none := data2(t), data2(t), data2(t), filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(filepath.Join(newer, "store", "wfhost-format"), []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	restored := t.TempDir()
	if err := os.Mkdir(filepath.Join(restored, "restore.partial"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to string
		flags    []string
		code     int
		says     string
	}{
		{data, data, nil, exitUsage, "--from and --to are the same"},
		{data, data + "/.", nil, exitConflict, "another process has it open"},
		{"mysql://x/y", data, nil, exitUsage, "--from: it must be a folder, postgres://"},
		{none, server.URL("wf"), nil, exitNotFound, "holds no data of wfhost"},
		{server.URL("empty"), none, nil, exitError, "has no schema wfhost"},
		{server.URL("empty"), server.URL("empty"), nil, exitUsage, "--from and --to are the same"},
		{newer, none, nil, exitError, "the store has format 99"},
		{data, newer, nil, exitError, "the store has format 99"},
		{data, restored, nil, exitError, "restore"},
		{data, file, nil, exitError, "not a directory"},
		{data, server.URL("fast"), nil, exitError, "synchronous_commit is off"},
		{data, "file:/nowhere/at/all", nil, exitNotFound, "/nowhere/at/all"},
		{data, "postgres://postgres:secret@127.0.0.1:1/x", nil, exitError, `database "x" on 127.0.0.1:1`},
		{data, strings.Replace(server.URL("wf"), "postgres@", "nobody:secret@", 1), nil, exitError, `as "nobody"`},
		{data, none, []string{"--keep-source"}, exitUsage, "--keep-source copies a database into a folder"},
		{server.URL("empty"), server.URL("wf"), []string{"--keep-source"}, exitUsage, "--keep-source copies a database into a folder"},
		{damaged, data2(t), nil, exitOK, ""},
	} {
		args := append([]string{"store", "copy", "--from", c.from, "--to", c.to}, c.flags...)
		code, out, errs := command(args...)
		if code != c.code || !strings.Contains(errs, c.says) || strings.Contains(errs, "secret") {
			t.Errorf("%v: exit %d, want %d, saying %q: %s%s", args, code, c.code, c.says, out, errs)
		}
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("a refused copy has made the folder of the target")
	}
	for _, args := range [][]string{{"--to", data}, {"--from", data}, {"--from", "", "--to", data}} {
		if code, _, errs := command(append([]string{"store", "copy"}, args...)...); code != exitUsage || !strings.Contains(errs, "--") {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
	}
	m := &transfer.Mark{State: transfer.Incomplete, Place: "elsewhere"}
	s, err := postgres.OpenTransfer(context.Background(), server.URL("wf"), postgres.TransferOptions{Target: true})
	if err == nil {
		err = errors.Join(s.SetMark(context.Background(), m), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, _, errs := command("serve", "--data", t.TempDir(), "--store", server.URL("wf"), "--listen", "127.0.0.1:0"); code == 0 ||
		!strings.Contains(errs, "has a part of elsewhere: repeat the same `wfhost store copy`") {
		t.Error(code, errs)
	}
	if code, _, errs := command("store", "reopen", "--store", server.URL("wf")); code == 0 || !strings.Contains(errs, "has a part of") {
		t.Error(code, errs)
	}
}
