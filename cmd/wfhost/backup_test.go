package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCopyOfAServer serves a copy. Until the copy is released, changes are refused with the reason.
func TestCopyOfAServer(t *testing.T) {
	exe := binary(t)
	address, data := freeAddress(t), t.TempDir()
	place, to := filepath.Join(t.TempDir(), "backups"), filepath.Join(t.TempDir(), "copy")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	try := func(args ...string) (code int, out string) {
		var b bytes.Buffer
		code = execute(ctx, append([]string{"--server", "http://" + address}, args...), stdio{in: strings.NewReader(""), out: &b, err: &b})
		return code, b.String()
	}
	run := func(want int, says string, args ...string) {
		t.Helper()
		if code, out := try(args...); code != want || !strings.Contains(out, says) {
			t.Fatalf("%v: exit code %d, want %d, saying %q:\n%s", args, code, want, says, out)
		}
	}
	stop := startServer(t, exe, data, address)
	defer func() { stop(false) }()
	run(exitOK, "s01@1", "upload", "../../host/testdata/s01")
	run(exitOK, "r1", "start", "s01", "--id", "r1", "--input", "86400000")
	for out := ""; !strings.Contains(out, "sleeping"); { // on a slow machine, compiling its module takes a while
		_, out = try("show", "r1")
		if ctx.Err() != nil {
			t.Fatal(out)
		}
	}
	run(exitOK, "are new", "backup", place)
	run(exitUsage, "is the folder of the data", "backup", data)
	run(exitOK, "are new", "backup", place, "--full")
	run(exitUsage, "--rate must not be negative, got -1", "backup", place, "--rate=-1")
	stop(false)
	run(exitError, "no server at", "backup", place)
	run(exitOK, "restored "+place+"/20", "restore", place, "--data", to+"0")
	run(exitOK, "as a copy", "restore", place, "--data", to, "--as-copy")
	stop = startServer(t, exe, to, address)
	run(exitOK, "the data is a copy", "copy")
	run(exitOK, "sleeping", "show", "r1")
	for _, args := range [][]string{{"start", "s01", "--input", "1"}, {"wake", "r1"}, {"cancel", "r1"}, {"upload", "../../host/testdata/v2"}} {
		run(exitConflict, "the data is a copy, in which nothing runs or changes until `wfhost copy release`", args...)
	}
	run(exitOK, "are new", "backup", place+"2") // of a copy
	run(exitOK, "the data is no copy", "copy", "release")
	run(exitOK, "", "wake", "r1")
	run(exitOK, `"ab"`, "result", "r1", "--wait")

	files, err := filepath.Glob(filepath.Join(place, "*", "store", "wfhost-format"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	run(exitOK, "0 problems", "verify", place)
	run(exitOK, "replayed on compiler, interpreter (0 of them not compared); 1 module", "verify", place, "--engines", "compiler,interpreter")
	run(exitUsage, `--engines: this program has the engines compiler, interpreter, got "v8"`, "verify", place, "--engines", "v8")
	run(exitError, "is a file: restore it", "verify", files[1])
	if err := os.WriteFile(files[1], []byte("9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(exitError, "file: backup is damaged: wfhost-format has the SHA-256", "verify", place)
	run(exitError, "backup is damaged", "restore", place, "--data", to+"2")
}
