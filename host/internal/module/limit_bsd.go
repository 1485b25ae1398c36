//go:build unix && !linux

package module

import "golang.org/x/sys/unix"

// limitProcess sets no memory limit, because these systems do not limit the address space; the child watches its
// memory.
func limitProcess(l CompileLimits) {
	limitCPU(l)
	if is, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && is < niceness {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness) // a lower priority is always allowed
	}
}
