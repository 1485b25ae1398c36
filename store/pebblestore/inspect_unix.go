//go:build unix && !aix

package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// lockHolder returns the process that has locked a file, and whether a process other than this one has. pid is 0 if the
// process is in another container. It does not take the lock, so that it cannot get in the way of an opening store.
func lockHolder(path string) (pid int, held bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = f.Close() }() // read only
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &l); err != nil {
		return 0, false, fmt.Errorf("ask who has locked %s: %w", path, err)
	}
	if l.Type == unix.F_UNLCK {
		return 0, false, nil
	}
	return max(int(l.Pid), 0), true, nil
}
