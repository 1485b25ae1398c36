package logfs

import "time"

var begun = time.Now()

// Elapsed returns the time since the process began, by the machine's monotonic clock. It is for adapting to the
// machine, and must not be visible to guests or in journals.
func Elapsed() time.Duration { return time.Since(begun) }

// AfterFunc calls f in a goroutine of its own after d by that clock, unless stop is called before. It is for monitoring
// the machine.
func AfterFunc(d time.Duration, f func()) (stop func() bool) { return time.AfterFunc(d, f).Stop }
