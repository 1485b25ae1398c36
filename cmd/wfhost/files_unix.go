//go:build unix

package main

import (
	"math"
	"syscall"
)

// maxFiles returns how many file descriptors the process may have open. It may be changed while the process runs.
func maxFiles() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(l.Cur)
}
