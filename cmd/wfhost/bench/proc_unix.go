//go:build unix

package bench

import (
	"syscall"
	"time"
)

// cpuTime gives what the process has used of its processors so far, false if the system does not say.
func cpuTime() (time.Duration, bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
