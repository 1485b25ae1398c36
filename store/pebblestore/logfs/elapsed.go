package logfs

import "time"

var begun = time.Now()

// Elapsed returns the time since the process began, by the machine's clock that only goes forward. It is for what adapts to
// the machine, and for nothing that a guest or a journal could show.
func Elapsed() time.Duration { return time.Since(begun) }

// AfterFunc calls f in a goroutine of its own when d has passed by that clock, unless stop is called before. It is for what
// watches the machine.
func AfterFunc(d time.Duration, f func()) (stop func() bool) { return time.AfterFunc(d, f).Stop }
