//go:build !unix

package module

import "time"

// limitProcess does nothing: the child looks after itself.
func limitProcess(CompileLimits) {}

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
