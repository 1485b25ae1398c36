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

// lockHolder returns the process that has locked a file, and whether any other than this one has. The process is 0 if it is in
// another container. The lock is not taken, so that nobody who opens the store meanwhile finds it locked.
func lockHolder(path string) (pid int, held bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = f.Close() }() // only read
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &l); err != nil {
		return 0, false, fmt.Errorf("ask who has locked %s: %w", path, err)
	}
	if l.Type == unix.F_UNLCK {
		return 0, false, nil
	}
	return max(int(l.Pid), 0), true, nil
}
