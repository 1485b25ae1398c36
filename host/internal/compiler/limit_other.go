//go:build !unix

package compiler

import "time"

// limitProcess does nothing: the child looks after itself.
func limitProcess(Limits) {}

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
