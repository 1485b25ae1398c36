// Package clock is the only place of the host that reads time. The host takes a Clock, so that tests and embedders
// can run it in virtual time.
package clock

import (
	"sync"
	"time"
)

// A Clock reads the wall clock and makes timers. It must be safe for concurrent use.
type Clock interface {
	// Now returns the wall clock's time. It may jump forward and back, as a machine's clock does when it is set.
	Now() time.Time
	// NewTimer returns a timer that fires once, after d has passed. It fires immediately if d is zero or negative.
	NewTimer(d time.Duration) Timer
}

// A Timer is a timer of a Clock. Setting the wall clock does not change the duration after which it fires.
type Timer interface {
	// C returns the channel that receives the time when the timer fires. It receives once, and the timer does not wait
	// for a receiver.
	C() <-chan time.Time
	// Stop prevents the timer from firing. It reports false if the timer has fired or was stopped.
	Stop() bool
}

// A Stepper is a Clock that reports when its wall clock is set. It is optional: an Alarm of any other Clock reads the
// wall clock once per second while a deadline is set.
type Stepper interface {
	// Steps returns a channel that receives after the wall clock was set, forward or back, and after the machine was
	// suspended. The channel is buffered: several steps may be reported as one, and a receiver that reads the wall clock
	// after each report misses none. It is closed if steps can no longer be reported, and nil if they cannot be
	// reported at all. stop releases what Steps has acquired; it may be called more than once.
	Steps() (c <-chan struct{}, stop func())
}

// System returns the machine's clock. On Linux it is a Stepper.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

// RealTime returns a function that returns the wall time and the time elapsed since RealTime was called, both in nanoseconds.
// The wall time starts at the time of clock of, and advances with the machine's clock.
func RealTime(of Clock) func() (int64, int64) {
	wall, start := of.Now(), System().Now()
	return func() (int64, int64) {
		elapsed := System().Now().Sub(start)
		return wall.Add(elapsed).UnixNano(), int64(elapsed)
	}
}

// AfterFunc calls f in a goroutine of its own when d has passed on a clock. stop prevents the call if it has not begun,
// and does not wait for one that has. Until then AfterFunc holds a goroutine, except with the machine's clock.
func AfterFunc(c Clock, d time.Duration, f func()) (stop func()) {
	if _, ok := c.(system); ok {
		t := time.AfterFunc(d, f)
		return func() { t.Stop() }
	}
	t := c.NewTimer(d)
	stopped := make(chan struct{})
	go func() {
		select {
		case <-t.C():
			f()
		case <-stopped:
			t.Stop()
		}
	}()
	return sync.OnceFunc(func() { close(stopped) })
}

// Again returns a timer that fires after d has passed. It reuses t if it can. t is a timer of c or nil; it may have
// fired, and the caller must be its only user.
func Again(c Clock, t Timer, d time.Duration) Timer {
	if s, ok := t.(systemTimer); ok {
		s.t.Reset(d) // since Go 1.23, Reset discards a value that was not received
		return s
	}
	if t != nil {
		t.Stop()
	}
	return c.NewTimer(d)
}

type systemTimer struct{ t *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.t.C }
func (t systemTimer) Stop() bool          { return t.t.Stop() }

// notify sends to a buffered channel, unless its buffer is full.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
