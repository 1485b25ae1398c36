// Package dirs makes directories that are still there after a power cut.
package dirs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// sync is Sync, in place of which tests put one that notes what it is called for.
var sync = Sync

// Make creates a directory and those above it that are missing, as os.MkdirAll does, and syncs the parent of each one that it
// has created: whatever is synced in a directory is lost if the directory is. Durable on return.
func Make(path string, mode os.FileMode) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &os.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := Make(parent, mode); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, mode); err != nil {
		if info, other := os.Stat(path); other != nil || !info.IsDir() { // another process was faster otherwise
			return err
		}
	}
	return sync(parent)
}

// Sync makes durable which files and directories a directory has. Windows has no such call, and writes them through.
func Sync(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync the directory: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
