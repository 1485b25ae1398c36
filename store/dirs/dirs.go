// Package dirs creates directories that survive a power cut.
package dirs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// sync is Sync. Tests replace it to record the calls.
var sync = Sync

// Make creates a directory and its missing parents, as os.MkdirAll does, and syncs the parent of each directory that it
// creates: otherwise a power cut could remove the directory with all synced files in it. Durable on return.
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
		if info, other := os.Stat(path); other != nil || !info.IsDir() { // otherwise another process was faster
			return err
		}
	}
	return sync(parent)
}

// Sync makes a directory's list of files and directories durable. Windows has no such call, and writes them through.
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
