package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// TestCopyOfAServer serves a copy: the client is told why nothing can be changed, until the copy is released.
func TestCopyOfAServer(t *testing.T) {
	exe := binary(t)
	address, data := freeAddress(t), t.TempDir()
	place, to := filepath.Join(t.TempDir(), "backups"), filepath.Join(t.TempDir(), "copy")
	run := func(want int, says string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		code := execute(context.Background(), append([]string{"--server", "http://" + address}, args...),
			stdio{in: strings.NewReader(""), out: &out, err: &out})
		if code != want || !strings.Contains(out.String(), says) {
			t.Errorf("%v: exit code %d, want %d, saying %q:\n%s", args, code, want, says, &out)
		}
	}
	stop := startServer(t, exe, data, address)
	run(exitOK, "s01@1", "upload", "../../host/testdata/s01")
	run(exitOK, "r1", "start", "s01", "--id", "r1", "--input", "86400000")
	run(exitOK, "are new", "backup", place)
	run(exitUsage, "--rate must not be negative, got -1", "backup", place, "--rate=-1")
	stop(false)
	run(exitError, "no server at", "backup", place)
	run(exitOK, "as a copy", "restore", place, "--data", to, "--as-copy")
	stop = startServer(t, exe, to, address)
	defer func() { stop(false) }()
	run(exitOK, "the data is a copy", "copy")
	run(exitOK, "sleeping", "show", "r1")
	for _, args := range [][]string{{"start", "s01", "--input", "1"}, {"wake", "r1"}, {"cancel", "r1"}, {"upload", "../../host/testdata/v2"}} {
		run(exitConflict, "the data is a copy, in which nothing runs or changes until `wfhost copy release`", args...)
	}
	run(exitOK, "are new", "backup", place+"2") // of a copy
	run(exitOK, "the data is no copy", "copy", "release")
	run(exitOK, "", "wake", "r1")
	run(exitOK, `"ab"`, "result", "r1", "--wait")
}
