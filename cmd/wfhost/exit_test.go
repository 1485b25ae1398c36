package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// TestExitCodes checks the documented exit codes against a real server.
func TestExitCodes(t *testing.T) {
	exe := binary(t)
	address := freeAddress(t)
	stop := startServer(t, exe, t.TempDir(), address)
	defer func() { stop(false) }()
	run := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		code := execute(context.Background(), append([]string{"--server", "http://" + address}, args...),
			stdio{in: strings.NewReader(""), out: &out, err: &errs})
		return code, out.String() + errs.String()
	}
	for _, c := range []struct {
		code int
		args []string
	}{
		{exitOK, []string{"upload", "../../host/testdata/s01"}},
		{exitOK, []string{"start", "s01", "--id", "one", "--input", "1", "--wait"}},
		{exitOK, []string{"version"}},
		{exitRunFailed, []string{"start", "s01", "--id", "bad", "--input", "1e3", "--wait"}},
		{exitRunFailed, []string{"result", "bad"}},
		{exitRunFailed, []string{"run", "-q", "../../host/testdata/s01", "--input", "1e3"}},
		{exitError, []string{"start", "s01", "--id", "refused", "--input", `"x"`}},
		{exitConflict, []string{"start", "s01", "--id", "one", "--input", "2"}},
		{exitConflict, []string{"cancel", "one"}},
		{exitNotFound, []string{"show", "nope"}},
		{exitNotFound, []string{"start", "nope"}},
		{exitNotFound, []string{"upload", "nope.wasm"}},
		{exitUsage, []string{"nonsense"}},
		{exitUsage, []string{"start", "s01", "--input", "{"}},
		{exitUsage, []string{"serve", "--listen", "0.0.0.0:1"}},
		{exitUsage, []string{"runs", "--status", "nope"}},
		{exitOK, []string{"start", "s01", "--id", "live", "--input", "86400000"}},
		{exitLive, []string{"result", "live"}},
	} {
		if code, text := run(c.args...); code != c.code {
			t.Errorf("%v: exit code %d, want %d\n%s", c.args, code, c.code, text)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, args := range [][]string{{"runs"}, {"logs", "-f", "live"}, {"result", "live", "--wait"}} {
		var errs bytes.Buffer
		code := execute(ctx, append([]string{"--server", "http://" + address}, args...), stdio{out: &bytes.Buffer{}, err: &errs})
		if code != exitInterrupted || errs.String() != "wfhost: interrupted\n" {
			t.Errorf("interrupted %v: exit code %d, %q", args, code, errs.String())
		}
	}
	if got := printable("a\x1b[31m\x07\n"); got != "a\\x1b[31m\\x07\n" {
		t.Errorf("control characters: %q", got)
	}
}
