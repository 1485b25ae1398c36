// Package clock is the only place of the host that reads time. The host takes a Clock, so that tests and
// embedders run it in virtual time.
package clock

import (
	"slices"
	"sync"
	"time"
)

// Clock tells the time and waits for it.
type Clock interface {
	Now() time.Time
	// NewTimer gives a timer that fires once after d; at once if d is zero or negative.
	NewTimer(d time.Duration) Timer
}

// Timer is a timer of a Clock.
type Timer interface {
	// C receives the time once, when the timer fires.
	C() <-chan time.Time
	// Stop prevents the timer from firing; false if it has fired or was stopped.
	Stop() bool
}

// System gives the machine's clock.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

type systemTimer struct{ t *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.t.C }
func (t systemTimer) Stop() bool          { return t.t.Stop() }

// Fake is a clock that stands still until it is moved. It is safe for concurrent use.
type Fake struct {
	mu     sync.Mutex
	now    time.Time
	timers []*fakeTimer // by deadline
}

// NewFake gives a fake clock that stands at start.
func NewFake(start time.Time) *Fake { return &Fake{now: start} }

// Now gives the fake time.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// NewTimer gives a timer that fires when the clock is moved to its deadline or past it.
func (f *Fake) NewTimer(d time.Duration) Timer {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &fakeTimer{clock: f, at: f.now.Add(d), c: make(chan time.Time, 1)}
	if d <= 0 {
		t.c <- f.now
		return t
	}
	i, _ := slices.BinarySearchFunc(f.timers, t.at, func(o *fakeTimer, at time.Time) int {
		if o.at.After(at) {
			return 1
		}
		return -1
	})
	f.timers = slices.Insert(f.timers, i, t)
	return t
}

// Advance moves the clock forward by d and fires what is due.
func (f *Fake) Advance(d time.Duration) { f.Set(f.Now().Add(d)) }

// Set moves the clock to t and fires what is due. t may lie in the past: then nothing fires, as when somebody
// sets a machine's clock back.
func (f *Fake) Set(t time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = t
	for len(f.timers) > 0 && !f.timers[0].at.After(t) {
		f.timers[0].c <- t
		f.timers = f.timers[1:]
	}
}

// Next gives the deadline of the timer that fires first, false if there is none.
func (f *Fake) Next() (time.Time, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.timers) == 0 {
		return time.Time{}, false
	}
	return f.timers[0].at, true
}

type fakeTimer struct {
	clock *Fake
	at    time.Time
	c     chan time.Time
}

func (t *fakeTimer) C() <-chan time.Time { return t.c }

func (t *fakeTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	i := slices.Index(t.clock.timers, t)
	if i < 0 {
		return false
	}
	t.clock.timers = slices.Delete(t.clock.timers, i, i+1)
	return true
}
