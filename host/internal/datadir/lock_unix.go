//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package datadir

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock locks a file for as long as it is open, and fails at once if the file is locked.
func lock(f *os.File) error {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}
