//go:build unix

package module

import (
	"time"

	"golang.org/x/sys/unix"
)

// niceness is the niceness of the child: if all processors are busy, it gets a tenth of the share of a host thread.
// With less, an honest module could reach CompileLimits.Wall.
const niceness = 10

// limitCPU makes the kernel kill the child about two seconds after its CPU limit.
func limitCPU(l CompileLimits) {
	most := uint64(l.CPU/time.Second) + 2
	_ = unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: most, Max: most}) // fails if the limit is already lower
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
