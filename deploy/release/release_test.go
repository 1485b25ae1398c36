package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestVersion reads the release of this source: the list of changes begins with it.
func TestVersion(t *testing.T) {
	source, err := os.ReadFile("../../" + versionFile)
	if err != nil {
		t.Fatal(err)
	}
	changes, err := os.ReadFile("../../" + changesFile)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := versionOf(source, changes); err != nil || v == "" {
		t.Errorf("%q %v", v, err)
	}
	number := []byte("const releaseNumber = \"v1.2.3\"\n")
	for changes, want := range map[string]string{"## [1.2.3] - 2026-01-01\n\n## 1.2.2\n": "", "## Unreleased\n## 1.2.3\n": "",
		"## 1.2.2\n## 1.2.3\n": "the first release in CHANGELOG.md is not v1.2.3", "": "is not v1.2.3"} {
		_, err := versionOf(number, []byte(changes))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", changes, err, want)
		}
	}
	if _, err := versionOf([]byte("const releaseNumber = \"next\"\n"), changes); err == nil {
		t.Error("a version that is no number is taken")
	}
}

// TestArchives writes archives twice, of files that differ in when they were made and who may read them: they have the same bytes, and
// hold what they should.
func TestArchives(t *testing.T) {
	made := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for kind, write := range map[string]func(string, []file, time.Time) error{"tar": writeTar, "zip": writeZip} {
		var sum [2][32]byte
		var text []byte
		for i := range sum {
			dir := t.TempDir()
			for name, mode := range map[string]os.FileMode{"program": 0o700, "text": 0o600 - os.FileMode(i)*0o200} {
				path := filepath.Join(dir, name)
				if err := errors.Join(os.WriteFile(path, []byte(name), mode), os.Chtimes(path, made, made.AddDate(0, 0, i))); err != nil {
					t.Fatal(err)
				}
			}
			out := filepath.Join(dir, "out")
			err := write(out, []file{{"a/wfhost", filepath.Join(dir, "program"), 0o755}, {"a/LICENSE", filepath.Join(dir, "text"), 0o644}}, made)
			if err != nil {
				t.Fatal(err)
			}
			text, err = os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			sum[i] = sha256.Sum256(text)
		}
		if sum[0] != sum[1] {
			t.Errorf("two archives of one content differ: %s", kind)
		}
		const want = "a/wfhost -rwxr-xr-x program, a/LICENSE -rw-r--r-- text"
		if got := contents(t, kind, text, made); got != want {
			t.Errorf("%s has %s, want %s", kind, got, want)
		}
	}
}

func contents(t *testing.T, kind string, text []byte, made time.Time) string {
	t.Helper()
	var all []string
	take := func(h os.FileInfo, name string, at time.Time, r io.Reader) {
		b, err := io.ReadAll(r)
		if err != nil || !at.Equal(made) {
			t.Errorf("%s: made %v, %v", name, at, err)
		}
		all = append(all, fmt.Sprintf("%s %v %s", name, h.Mode(), b))
	}
	if kind == "zip" {
		z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			take(f.FileInfo(), f.Name, f.Modified, r)
		}
		return strings.Join(all, ", ")
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(all, ", ")
		}
		if err != nil {
			t.Fatal(err)
		}
		take(h.FileInfo(), h.Name, h.ModTime, r)
	}
}

// TestSums lists files in an order of their own, as sha256sum does.
func TestSums(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b", "a"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := sums(dir, []string{"b", "a"}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if want := fmt.Sprintf("%x  a\n%x  b\n", sha256.Sum256([]byte("a")), sha256.Sum256([]byte("b"))); err != nil || string(got) != want {
		t.Errorf("%s %v", got, err)
	}
	if err := sums(dir, []string{"c"}); err == nil {
		t.Error("a file that is missing has a sum")
	}
}

// TestForgetTool keeps all of an SBOM but the hashes of the binary that has made it, which differ between machines.
func TestForgetTool(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bill")
	const made = `{"metadata":{"tools":[{"name":"t","hashes":[{"alg":"MD5"}]}],"component":{"hashes":[1]}},"version":1,"a":"<b>"}`
	if err := os.WriteFile(path, []byte(made), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := forgetTool(path); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	want := `{"a":"<b>","metadata":{"component":{"hashes":[1]},"tools":[{"name":"t"}]},"version":1}`
	if plain := strings.Join(strings.Fields(string(got)), ""); err != nil || plain != want {
		t.Errorf("%s %v", plain, err)
	}
	for _, bad := range []string{`{"metadata":{}}`, `{`, `{}`} {
		if err := errors.Join(os.WriteFile(path, []byte(bad), 0o600), forgetTool(path)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
