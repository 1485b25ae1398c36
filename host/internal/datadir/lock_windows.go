package datadir

import (
	"os"

	"golang.org/x/sys/windows"
)

// lock locks a file for as long as it is open, and fails at once if the file is locked.
func lock(f *os.File) error {
	const exclusive = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), exclusive, 0, 1, 0, &windows.Overlapped{})
}
