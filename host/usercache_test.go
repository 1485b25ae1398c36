package host_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/wfhost/wfhost/host"
)

// TestUserCacheDir: the user's cache folder is not used if that is impossible, or if others could put code into it.
func TestUserCacheDir(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("XDG_CACHE_HOME names the folder only there")
	}
	base := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", base)
	dir := filepath.Join(base, "wfhost", "modules")
	if got := host.UserCacheDir(); got != dir {
		t.Fatalf("%q, want %q", got, dir)
	}
	if got := host.UserCacheDir(); got != dir {
		t.Errorf("the second time: %q", got)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
	do(t, os.Chmod(dir, 0o755))
	if got := host.UserCacheDir(); got != "" {
		t.Errorf("a folder that all may read: %q", got)
	}
	do(t, os.Chmod(dir, 0o700))
	do(t, os.Chmod(filepath.Dir(dir), 0o777))
	if got := host.UserCacheDir(); got != "" {
		t.Errorf("a folder above it that all may write to: %q", got)
	}
	t.Setenv("XDG_CACHE_HOME", filepath.Join(base, "file", "x"))
	do(t, os.WriteFile(filepath.Join(base, "file"), nil, 0o600))
	if got := host.UserCacheDir(); got != "" {
		t.Errorf("below a file: %q", got)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if got := host.UserCacheDir(); got != "" {
		t.Errorf("without a home: %q", got)
	}
}
