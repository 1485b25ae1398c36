//go:build unix

package main

import (
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxFiles returns the limit of open file descriptors, which may change while the process runs.
func maxFiles() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(l.Cur)
}

// terminalWidth returns the width of a terminal in characters, 0 if unknown.
func terminalWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
