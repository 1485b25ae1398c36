//go:build unix

package module

import (
	"time"

	"golang.org/x/sys/unix"
)

// niceness is the priority of the child: where all processors are busy, it gets a tenth of what a thread of the host gets. With
// less than that, an honest module could reach CompileLimits.Wall.
const niceness = 10

// limitCPU has the kernel kill the child some seconds after its limit.
func limitCPU(l CompileLimits) {
	most := uint64(l.CPU/time.Second) + 2
	_ = unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: most, Max: most}) // a lower one stays
}

// cpuTime returns what this process has taken of the processors.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
