package host

import (
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

// Clock is the clock of a host. The zero Config uses the machine's clock; tests use the clock of package hosttest. A
// program may implement its own. The host calls it from many goroutines and while it holds locks, so its methods must
// not block or call the host.
//
// A Clock should implement Stepper if it can.
type Clock interface {
	// Now returns the wall clock's time. It is journaled, in milliseconds, and workflows see it. It may jump: a run sleeps
	// until the wall clock shows its deadline, so it wakes later if the clock is set back, and earlier if it is set forward.
	Now() time.Time
	// NewTimer returns a timer that fires once, after d has passed, and immediately if d is zero or negative. A timer that is
	// late makes runs late. One that fires before Now shows its deadline is replaced by another one for the rest, so a clock
	// that rounds down costs time and is never wrong.
	NewTimer(d time.Duration) ClockTimer
}

// ClockTimer is a timer of a Clock:
//
//	// C returns a channel that receives once when the timer fires. It must be buffered, because the host may no longer
//	// receive from it. The host never reads the time that it carries.
//	C() <-chan time.Time
//	// Stop prevents the timer from firing, and reports whether it has done so.
//	Stop() bool
//
// The host stops every timer that it does not wait for.
type ClockTimer = clock.Timer

// Stepper is implemented by a Clock that can report that its wall clock was set: by hand, by a time server, or because
// the machine was suspended. The host then checks the deadlines of all sleepers again. If a Clock is not a Stepper, or
// Steps returns a nil channel, the host reads Now once per second while a run sleeps, and wakes runs at most a second
// late after the clock was set forward.
type Stepper interface {
	// Steps returns a buffered channel that receives after the wall clock was set. Several steps may be reported as one. It is
	// closed if steps can no longer be reported, and nil if they cannot be reported at all. A clock that is never set returns
	// a channel that never receives. stop releases what Steps has acquired; it may be called more than once.
	Steps() (c <-chan struct{}, stop func())
}
