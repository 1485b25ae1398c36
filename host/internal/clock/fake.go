package clock

import (
	"slices"
	"sync"
	"time"
)

// A Fake is a clock that stands still until it is moved. It is safe for concurrent use, and a Stepper.
type Fake struct {
	mu     sync.Mutex
	now    time.Time
	timers []*fakeTimer // by deadline
	steps  []chan struct{}
}

// NewFake returns a fake clock that stands at start.
func NewFake(start time.Time) *Fake { return &Fake{now: start} }

// Now returns the fake time.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// NewTimer returns a timer that fires when the clock is moved to its deadline or past it.
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

// Advance lets d pass: it moves the clock forward and fires the timers that are due.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.setLocked(f.now.Add(d))
}

// Set moves the clock to t and fires the timers that are due. If t lies in the past, no timer fires, and all timers
// keep the instants at which they fire; Step imitates a machine whose clock is set.
func (f *Fake) Set(t time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.setLocked(t)
}

func (f *Fake) setLocked(t time.Time) {
	f.now = t
	for len(f.timers) > 0 && !f.timers[0].at.After(t) {
		f.timers[0].c <- t
		f.timers = f.timers[1:]
	}
}

// Step sets the wall clock forward by d, or back if d is negative, while no time passes: timers fire after the
// durations that they had left, as a machine's timers do.
func (f *Fake) Step(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	for _, t := range f.timers {
		t.at = t.at.Add(d)
	}
	for _, c := range f.steps {
		notify(c)
	}
}

// Steps returns a channel that receives after each call of Step.
func (f *Fake) Steps() (c <-chan struct{}, stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	own := make(chan struct{}, 1)
	f.steps = append(f.steps, own)
	return own, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.steps = slices.DeleteFunc(f.steps, func(c chan struct{}) bool { return c == own })
	}
}

// Next returns the instant at which the next timer fires. It reports false if there is no timer.
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
