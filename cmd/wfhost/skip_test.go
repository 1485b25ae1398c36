package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

// TestSkipSleepOfOneRun skips the sleeps of one run. Another run in the same folder sleeps on until its original wake
// time.
func TestSkipSleepOfOneRun(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "data")
	wasm := filepath.Join(t.TempDir(), "s01.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", wasm, "../../host/testdata/s01")
	build.Env = append(build.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(ctx context.Context, args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := execute(ctx, append([]string{"run", "-q", wasm, "--data", dir}, args...),
			stdio{in: strings.NewReader(""), out: &out, err: &errs})
		return code, out.String(), errs.String()
	}
	look := func() host.Run {
		t.Helper()
		h, err := host.Open(ctx, host.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = h.Close() }() // it was read
		r, err := h.Get(ctx, "stranger")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	h, err := host.Open(ctx, host.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(wasm)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Upload(ctx, "s01", module); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(ctx, "s01", 1000, host.WithRunID("stranger"), host.WithStartIn(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	before := look()
	if before.Status != host.Sleeping {
		t.Fatal(before.Status)
	}
	if code, out, errs := run(ctx, "--id", "skips", "--input", "864000000", "--skip-sleep"); code != exitOK || out != "\"ab\"\n" {
		t.Fatal(code, out, errs)
	}
	if after := look(); after.Status != host.Sleeping || !after.Wake.Equal(before.Wake) {
		t.Errorf("the other run is %s and wakes at %v; it was to wake at %v", after.Status, after.Wake, before.Wake)
	}
}
