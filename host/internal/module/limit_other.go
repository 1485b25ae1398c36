//go:build !unix

package module

import "time"

// limitProcess does nothing: the child watches its own usage.
func limitProcess(CompileLimits) {}

// cpuTime returns 0: the CPU time is not available on this system.
func cpuTime() time.Duration { return 0 }
