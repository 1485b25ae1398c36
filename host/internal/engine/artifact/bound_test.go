package artifact

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBound removes the least recently used files, whatever folder they are in, and nothing of a compilation in
// progress.
func TestBound(t *testing.T) {
	dir := t.TempDir()
	began := time.Now().Add(-time.Hour)
	for i, name := range []string{"wazero-old/a", "modules/b", "wazero-new/c", "modules/d", "new-1/e"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, 100), fileMode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, began.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		most, least int64
		use         string
		want        string
		bytes       int64
	}{
		{400, 0, "", "modules/b modules/d new-1/e wazero-new/c wazero-old/a", 400},
		{399, 399, "", "modules/b modules/d new-1/e wazero-new/c", 300},
		{299, 250, "modules/b", "modules/b modules/d new-1/e", 200},
		{199, 100, "", "modules/b new-1/e", 100},
		{0, 0, "", "new-1/e", 0},
	} {
		if c.use != "" {
			used(filepath.Join(dir, c.use))
		}
		if bytes, err := Folder(dir).Bound(c.most, c.least); err != nil || bytes != c.bytes {
			t.Errorf("within %d bytes, or %d: %d and %v, want %d", c.most, c.least, bytes, err, c.bytes)
		}
		paths, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
		for i := range paths {
			paths[i] = strings.TrimPrefix(filepath.ToSlash(paths[i]), filepath.ToSlash(dir)+"/")
		}
		if slices.Sort(paths); strings.Join(paths, " ") != c.want {
			t.Errorf("within %d bytes there are %v, want %s", c.most, paths, c.want)
		}
	}
	if _, err := Folder(filepath.Join(dir, "missing")).Bound(0, 0); err == nil {
		t.Error("a folder that is not there was read")
	}
}

// TestForget removes an artifact, and makes its code the next to be evicted.
func TestForget(t *testing.T) {
	dir := Folder(t.TempDir())
	scratch, remove, err := dir.Scratch()
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	code := filepath.Join(scratch, "code")
	if err := os.WriteFile(code, []byte("code"), fileMode); err != nil {
		t.Fatal(err)
	}
	a := &Artifact{Module: *rewritten(t)}
	if err := a.Write(scratch, code, "folder", "name"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := dir.Take(scratch, "it", "folder"); err != nil {
		t.Fatal(err)
	}
	before := time.Now().Add(-time.Minute)
	for range 2 { // the second time there is nothing
		if err := dir.Forget("it"); err != nil {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(string(dir), modules)); len(left) > 0 {
		t.Error(left)
	}
	if info, err := os.Stat(filepath.Join(string(dir), "folder", "name")); err != nil || info.ModTime().After(before) {
		t.Error(info, err)
	}
}
