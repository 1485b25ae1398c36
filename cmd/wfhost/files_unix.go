//go:build unix

package main

import (
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxFiles returns how many file descriptors the process may have open. It may be changed while the process runs.
func maxFiles() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(l.Cur)
}

// terminalWidth returns how many characters fit a line of a terminal, 0 if that is not known.
func terminalWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
