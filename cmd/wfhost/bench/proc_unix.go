//go:build unix

package bench

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time that the process has used, false if the system does not tell.
func cpuTime() (time.Duration, bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
