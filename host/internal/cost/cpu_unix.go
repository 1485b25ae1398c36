//go:build unix

package cost

import (
	"syscall"
	"time"
)

// CPU returns the time that the processors have spent on this process.
func CPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails for no process of its own
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
