//go:build !unix

package bench

import "time"

// cpuTime returns false: it is not implemented on this system.
func cpuTime() (time.Duration, bool) { return 0, false }
