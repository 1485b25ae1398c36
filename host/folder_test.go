//go:build unix

package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
)

// TestOpenRefusesFolders opens data folders that other users could have written to.
func TestOpenRefusesFolders(t *testing.T) {
	open := t.TempDir()
	do(t, os.Chmod(open, 0o777))
	if _, err := host.Open(ctx, host.Config{Dir: open}); err == nil || !strings.Contains(err.Error(), "has mode 0777") {
		t.Error(err)
	}
	if left, err := os.ReadDir(open); err != nil || len(left) > 0 {
		t.Error("there are files in it:", left, err)
	}
	dir, code := t.TempDir(), t.TempDir()
	do(t, os.Chmod(code, 0o755))
	do(t, os.Symlink(code, filepath.Join(dir, "cache")))
	if _, err := host.Open(ctx, host.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "others could put code into it") {
		t.Error(err)
	}
	do(t, os.Chmod(code, 0o700))
	do(t, os.Chmod(filepath.Join(dir, "store"), 0o755))
	h, err := host.Open(ctx, host.Config{Dir: dir})
	do(t, err)
	do(t, h.Close())
	if info, err := os.Stat(filepath.Join(dir, "store")); err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info.Mode(), err)
	}
}
