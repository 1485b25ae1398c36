package dirs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// Make syncs the parents of the directories that it creates, upper ones first, and no others.
func TestMakeSyncsParents(t *testing.T) {
	base := t.TempDir()
	var synced []string
	defer func() { sync = Sync }()
	sync = func(dir string) error {
		synced = append(synced, dir)
		return Sync(dir)
	}
	want := []string{base, filepath.Join(base, "a"), filepath.Join(base, "a", "b")}
	if err := Make(filepath.Join(base, "a", "b", "c"), 0o700); err != nil || !slices.Equal(synced, want) {
		t.Fatalf("synced %q, want %q, %v", synced, want, err)
	}
	synced = nil
	if err := Make(filepath.Join(base, "a", "b", "c"), 0o700); err != nil || len(synced) > 0 {
		t.Errorf("what is there was synced: %q, %v", synced, err)
	}
	if info, err := os.Stat(filepath.Join(base, "a", "b")); err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info, err)
	}
	broken := errors.New("broken")
	sync = func(string) error { return broken }
	if err := Make(filepath.Join(base, "d"), 0o700); !errors.Is(err, broken) {
		t.Errorf("a failed sync: %v", err)
	}
}

func TestMakeRefusesFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		if err := Make(path, 0o700); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := Sync(filepath.Join(file, "..", "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
