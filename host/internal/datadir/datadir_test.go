//go:build unix

package datadir

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// at makes a folder with a mode, whatever the umask is.
func at(t *testing.T, mode os.FileMode) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "x")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

func permOf(t *testing.T, dir string) os.FileMode {
	t.Helper()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestModes(t *testing.T) {
	for _, c := range []struct {
		name     string
		check    func(string, *slog.Logger) error
		was, now os.FileMode
		refused  bool
	}{
		{"data", CheckData, 0o700, 0o700, false}, {"data", CheckData, 0o755, 0o755, false}, {"data", CheckData, 0o750, 0o750, false},
		{"data", CheckData, 0o775, 0o755, false}, {"data", CheckData, 0o777, 0o777, true}, {"data", CheckData, 0o702, 0o702, true},
		{"data", CheckData, 0o777 | os.ModeSticky, 0o777, true},
		{"store", CheckStore, 0o700, 0o700, false}, {"store", CheckStore, 0o755, 0o700, false}, {"store", CheckStore, 0o710, 0o700, false},
		{"store", CheckStore, 0o775, 0o700, false}, {"store", CheckStore, 0o777, 0o777, true},
	} {
		dir := at(t, c.was)
		var out bytes.Buffer
		err := c.check(dir, slog.New(slog.NewTextHandler(&out, nil)))
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), dir+" has mode 0") {
			t.Errorf("%s of mode %v: %v", c.name, c.was, err)
		}
		if got := permOf(t, dir); got != c.now {
			t.Errorf("%s of mode %v has %v", c.name, c.was, got)
		}
		if loud := strings.Contains(out.String(), "let other users in"); loud != (c.was.Perm() != c.now) {
			t.Errorf("%s of mode %v: it says %q", c.name, c.was, out.String())
		}
	}
	silent := slog.New(slog.DiscardHandler)
	dir := filepath.Join(t.TempDir(), "a", "b")
	for _, check := range []func() error{func() error { return CheckData(dir, silent) }, func() error { return CheckStore(filepath.Join(dir, "s"), silent) },
		func() error { return CheckCache(filepath.Join(dir, "c")) }} {
		for range 2 {
			if err := check(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, made := range []string{dir, filepath.Join(dir, "s"), filepath.Join(dir, "c")} {
		if got := permOf(t, made); got != 0o700 {
			t.Errorf("%s was made with mode %v", made, got)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if CheckData(file, silent) == nil || CheckStore(file, silent) == nil || CheckCache(file) == nil {
		t.Error("a file is no folder")
	}
}

func TestCache(t *testing.T) {
	self := os.Geteuid()
	dir := at(t, 0o700)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, link} {
		if err := cache(path, self); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := cache(dir, self+1); err == nil || !strings.Contains(err.Error(), "belongs to user") {
		t.Error("of another user:", err)
	}
	for _, mode := range []os.FileMode{0o750, 0o701, 0o777} {
		if err := CheckCache(at(t, mode)); err == nil || !strings.Contains(err.Error(), "others could put code into it") {
			t.Errorf("of mode %v: %v", mode, err)
		}
	}
	if self == 0 { // root owns all links that it makes, so the link above is followed
		if err := os.Lchown(link, 12345, -1); err != nil {
			t.Fatal(err)
		}
		if err := cache(link, self); err == nil || !strings.Contains(err.Error(), "is a symbolic link that user 12345 has made") {
			t.Error("a link of another user:", err)
		}
		if err := os.Lchown(link, 0, -1); err != nil {
			t.Fatal(err)
		}
	} else if err := cache(link, self+1); err == nil || !strings.Contains(err.Error(), "is a symbolic link that user") {
		t.Error("a link of another user:", err)
	}
	if err := CheckCache(filepath.Join(link, "missing", "below")); err != nil {
		t.Error(err)
	}
	if err := os.Symlink(filepath.Join(link, "nowhere"), filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	if err := CheckCache(filepath.Join(dir, "dangling")); err == nil {
		t.Error("a link that leads nowhere was taken")
	}
}

func TestCheckAbove(t *testing.T) {
	self, base := os.Geteuid(), at(t, 0o700)
	make := func(mode os.FileMode, parts ...string) string {
		t.Helper()
		dir := filepath.Join(append([]string{base}, parts...)...)
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	open, sticky := make(0o777, "open"), make(0o777|os.ModeSticky, "sticky")
	group, private := make(0o770, "group"), make(0o755, "private")
	make(0o700, "sticky", "own")
	make(0o777, "private", "cache")
	if err := os.Symlink(open, filepath.Join(private, "link")); err != nil {
		t.Fatal(err)
	}
	for dir, ok := range map[string]bool{
		filepath.Join(private, "cache"):                true, // itself is not looked at
		filepath.Join(private, "a", "b"):               true,
		filepath.Join(sticky, "own"):                   true,
		filepath.Join(sticky, "own", "cache"):          true,
		filepath.Join(sticky, "missing", "cache"):      false, // somebody else may make it
		filepath.Join(open, "cache"):                   false,
		filepath.Join(group, "missing", "cache"):       false,
		filepath.Join(private, "link", "cache"):        false,
		filepath.Join(private, "cache", "in", "cache"): false,
	} {
		if err := CheckAbove(dir); (err == nil) != ok {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if err := above(filepath.Join(private, "cache"), self+1); self != 0 && err == nil {
		t.Error("folders of another user were taken")
	}
	if self == 0 {
		if err := os.Chown(private, 12345, -1); err != nil {
			t.Fatal(err)
		}
		if err := CheckAbove(filepath.Join(private, "cache")); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
			t.Error(err)
		}
	}
}
