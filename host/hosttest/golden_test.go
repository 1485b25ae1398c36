package hosttest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
)

const runs = "../../examples/upgrade/testdata/runs"

// TestGolden passes with compatible code. With incompatible code it fails with the message of a strict replay.
func TestGolden(t *testing.T) {
	Golden(t, runs, Build(t, "../../examples/upgrade"))
	paths, err := recordings(runs)
	if err != nil || len(paths) != 2 {
		t.Fatal(paths, err)
	}
	h := New(t)
	const want = `of "upgrade": replay differs from the journal at entry 2: the journal has sleep "packing", the workflow did body "check"`
	for _, path := range paths {
		if _, err := replayed(t.Context(), h.Host, path, Build(t, "../../examples/upgrade/wrong")); err == nil ||
			!strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
		if _, err := replayed(t.Context(), h.Host, path, Build(t, "../../examples/approval")); err == nil {
			t.Errorf("%s: a module with another workflow passes", path)
		}
	}
}

// TestGoldenOfNothing fails if no run is replayed, or if a run cannot be read.
func TestGoldenOfNothing(t *testing.T) {
	dir := t.TempDir()
	if _, err := recordings(dir); err == nil || !strings.Contains(err.Error(), "has no recorded run") {
		t.Error(err)
	}
	if _, err := recordings(filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that is not there passes")
	}
	path := filepath.Join(dir, "bad"+host.ArchiveSuffix)
	if err := os.WriteFile(path, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := replayed(t.Context(), New(t).Host, path, nil); err == nil || !strings.Contains(err.Error(), "not a sound archive") {
		t.Error(err)
	}
}
