//go:build unix && !linux

package module

import "golang.org/x/sys/unix"

// limitProcess leaves memory to the child itself: these systems do not limit the address space of a process.
func limitProcess(l CompileLimits) {
	limitCPU(l)
	if is, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && is < niceness {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness) // less is always allowed
	}
}
