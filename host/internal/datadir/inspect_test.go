//go:build unix

package datadir

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInspectSaysWhatTheChecksDo compares the faults of folders with what a host's checks do. A refused folder is
// unchanged and has a refused fault, a folder whose permissions are narrowed has another fault, and a folder without
// a fault is unchanged.
func TestInspectSaysWhatTheChecksDo(t *testing.T) {
	checks := map[string]func(string) error{
		"data":  func(dir string) error { return CheckData(dir, slog.New(slog.DiscardHandler)) },
		"store": func(dir string) error { return CheckStore(dir, slog.New(slog.DiscardHandler)) },
		"cache": CheckCache,
	}
	for _, mode := range []os.FileMode{0o700, 0o750, 0o755, 0o770, 0o775, 0o777, 0o702} {
		for what, check := range checks {
			dir := at(t, mode)
			none := filepath.Join(t.TempDir(), "none")
			folders := map[string]string{"data": none, "store": none, "cache": none}
			folders[what] = dir
			faults, err := Inspect(folders["data"], folders["store"], folders["cache"])
			if err != nil || len(faults) > 1 {
				t.Fatal(faults, err)
			}
			if got := permOf(t, dir); got != mode {
				t.Errorf("%s of mode %v has %v after a look", what, mode, got)
			}
			refused := check(dir) != nil
			if got := len(faults) > 0 && faults[0].Refused; got != refused {
				t.Errorf("%s of mode %v: refused %v, the faults are %+v", what, mode, refused, faults)
			}
			if narrowed := permOf(t, dir) != mode; narrowed != (len(faults) > 0 && !refused) {
				t.Errorf("%s of mode %v is narrowed: %v, the faults are %+v", what, mode, narrowed, faults)
			}
			if len(faults) > 0 && (!strings.Contains(faults[0].Text, fmt.Sprintf("%s has mode %04o", dir, mode)) ||
				!strings.Contains(faults[0].Advice, "chmod 0700 "+dir) || faults[0].Path != dir) {
				t.Errorf("%s of mode %v: %+v", what, mode, faults[0])
			}
		}
	}
}

// TestInspectFoldersOfOthers inspects, as another user, folders and links of the user who runs the test, and files
// that are not folders.
func TestInspectFoldersOfOthers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	self := os.Geteuid() + 1
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(at(t, 0o700), link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir     string
		owned   bool
		text    string
		refused bool
	}{
		{file, false, "is no folder", true},
		{at(t, 0o700), false, fmt.Sprintf("belongs to user %d, and this is user %d", os.Geteuid(), self), false},
		{at(t, 0o700), true, "belongs to user", true},
	} {
		faults, err := inspect("store", c.dir, notOwner, c.owned, self)
		if err != nil || len(faults) != 1 || !strings.Contains(faults[0].Text, c.text) || faults[0].Refused != c.refused {
			t.Errorf("%s, owned %v: %+v, %v", c.dir, c.owned, faults, err)
		}
	}
	faults, err := inspect("store", link, notOwner, false, self)
	if err != nil || len(faults) == 0 {
		t.Fatal(faults, err)
	}
	if others := strings.Contains(faults[0].Text, "is a symbolic link that user"); others != (os.Geteuid() != 0) {
		t.Errorf("a link of user %d: %+v", os.Geteuid(), faults)
	}
	if _, err := Inspect(filepath.Join(file, "below"), "", ""); err == nil || !strings.Contains(err.Error(), "check data directory") {
		t.Errorf("a folder below a file: %v", err)
	}
}

// TestLock locks a file twice, and again after the first lock is released.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "LOCK")
	first, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := Lock(path); err == nil || !strings.Contains(err.Error(), "lock "+path) {
		t.Errorf("the second lock: %v, %v", second, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Lock(filepath.Join(path, "below", "a file")); err == nil {
		t.Error("a lock below a file")
	}
}
