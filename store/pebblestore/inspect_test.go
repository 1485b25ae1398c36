package pebblestore

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// TestInspect inspects stores that are missing, open, closed, or written by an earlier or a newer release. Their
// files do not change, and a process that has the store open is not affected.
func TestInspect(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	is := func(want Inspection, wrong error) {
		t.Helper()
		if l, err := Inspect(dir); l != want || !errors.Is(err, wrong) {
			t.Errorf("%+v, %v; want %+v, %v", l, err, want, wrong)
		}
	}
	is(Inspection{}, nil)
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	here := Inspection{Exists: true, Format: store.FormatVersion, Database: int(databaseVersion)}
	open := here
	open.Open, open.Holder = true, os.Getpid()
	is(open, nil)
	if out, err := other(t, dir).CombinedOutput(); !strings.Contains(string(out), fmt.Sprintf("holder %d true", os.Getpid())) {
		t.Errorf("another process sees that it is open: %s %v", out, err)
	}
	is(open, nil)
	if out, err := other(t, dir).CombinedOutput(); !strings.Contains(string(out), "true") {
		t.Errorf("looking at it has released its lock: %s %v", out, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := fileHashes(t, dir)
	is(here, nil)
	if out, err := other(t, dir).CombinedOutput(); !strings.Contains(string(out), "holder 0 false") {
		t.Errorf("another process sees that it was closed: %s %v", out, err)
	}
	if after := fileHashes(t, dir); after != before {
		t.Errorf("the files were changed:\n%s\nbefore:\n%s", after, before)
	}
	note := filepath.Join(dir, formatName)
	if err := os.Remove(note); err != nil { // as an earlier release leaves it
		t.Fatal(err)
	}
	is(here, nil)
	is(here, nil)
	if err := os.WriteFile(note, fmt.Appendln(nil, store.FormatVersion+1), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := here
	newer.Format++
	is(newer, store.ErrVersion)
	marks, err := filepath.Glob(filepath.Join(dir, "marker.format-version.*"))
	if err != nil || len(marks) != 1 {
		t.Fatal(marks, err)
	}
	if err := os.Rename(marks[0], filepath.Join(dir, "marker.format-version.999998.999")); err != nil {
		t.Fatal(err)
	}
	is(Inspection{Exists: true}, store.ErrVersion)
}

// other starts a process that inspects a store.
func other(t *testing.T, dir string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInspectElsewhere$", "-test.v")
	cmd.Env = append(os.Environ(), "PEBBLESTORE_LOOK="+dir)
	return cmd
}

// TestInspectElsewhere is that process.
func TestInspectElsewhere(t *testing.T) {
	for _, v := range os.Environ() {
		if dir, ok := strings.CutPrefix(v, "PEBBLESTORE_LOOK="); ok {
			l, err := Inspect(dir)
			t.Logf("holder %d %v, %v", l.Holder, l.Open, err)
			return
		}
	}
	t.Skip("it is run by TestInspect")
}
