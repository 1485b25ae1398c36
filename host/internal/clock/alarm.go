package clock

import (
	"math"
	"sync"
	"time"
)

// MaxStepDelay bounds how late an Alarm is after the wall clock was set forward.
const MaxStepDelay = time.Second

// never is the deadline of an alarm without one.
const never = math.MaxInt64

// An Alarm waits for the wall clock to show an instant. A timer alone cannot: it waits for a duration, and the wall
// clock may be set meanwhile. The methods of an Alarm may be called concurrently.
//
// If its Clock is a Stepper, which reports when it is set, the alarm sleeps until its deadline. Otherwise the alarm
// reads the wall clock once per MaxStepDelay while a deadline is set: without that, after a clock was set forward by
// two hours, every sleeper would wake two hours late.
type Alarm struct {
	clock     Clock
	steps     <-chan struct{} // nil if the clock does not report steps; used by run alone
	stopSteps func()
	c         chan struct{} // buffered 1; sent to under mu
	moved     chan struct{} // buffered 1
	recheck   chan struct{} // buffered 1; tells run to compute its sleep again
	quit      chan struct{}
	closing   sync.Once
	done      chan struct{}

	// mu guards the fields below. It is held for a few instructions, and while Clock.Now is called.
	mu    sync.Mutex
	due   int64 // the deadline, unix ms; never if none is set
	rung  int64 // the last deadline that was sent to c
	armed int64 // run looks at due when the wall clock shows this instant, or sooner
	seen  int64 // what the wall clock showed when run last read it, unix ms
}

// NewAlarm returns an alarm without a deadline. The caller must Close it.
func NewAlarm(c Clock) *Alarm {
	a := &Alarm{clock: c, stopSteps: func() {}, c: make(chan struct{}, 1), moved: make(chan struct{}, 1),
		recheck: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}), due: never, armed: never}
	if s, ok := c.(Stepper); ok {
		a.steps, a.stopSteps = s.Steps()
	}
	go a.run()
	return a
}

// C returns the channel that receives, once for each call of Set, when the wall clock shows an instant at or after the
// deadline. The channel is buffered: the alarm does not wait for a receiver.
func (a *Alarm) C() <-chan struct{} { return a.c }

// Moved returns the channel that receives after the wall clock was set back and, with a Stepper, also after it was set
// forward. While no deadline is set, only a Stepper notices.
func (a *Alarm) Moved() <-chan struct{} { return a.moved }

// Set replaces the deadline. A report of an earlier deadline that was not yet received is withdrawn, unless the new
// deadline is not later than the reported one. The last call wins: callers that compute deadlines under a lock should
// call Set under the same lock. Set does not block, and is cheapest when the deadline moves back or stays.
func (a *Alarm) Set(unixMs int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.c) > 0 {
		if unixMs <= a.rung {
			return
		}
		select {
		case <-a.c:
		default: // received at this moment
		}
	}
	a.due = unixMs
	if unixMs < a.armed { // otherwise run will see the new deadline when it wakes for an earlier one
		a.armed = unixMs
		notify(a.recheck)
	}
}

// Clear removes the deadline. A report that was not yet received is withdrawn.
func (a *Alarm) Clear() { a.Set(never) }

// Close ends the alarm's goroutine and returns when it has ended. C receives nothing afterwards.
func (a *Alarm) Close() {
	a.closing.Do(func() { close(a.quit) })
	<-a.done
	a.Clear()
}

// run sleeps until the deadline, or until the deadline or the wall clock is changed.
func (a *Alarm) run() {
	defer close(a.done)
	defer func() { a.stopSteps() }()
	for {
		var t Timer
		var fired <-chan time.Time
		for i := range attempts {
			d, now, ok := a.check()
			if !ok {
				break
			}
			t = a.clock.NewTimer(d)
			fired = t.C()
			if moved := a.clock.Now().Sub(now); moved < time.Millisecond && moved > -time.Millisecond {
				break
			}
			if i == attempts-1 {
				break
			}
			t.Stop() // the clock was moved between check and NewTimer: the timer would be late by that
			t, fired = nil, nil
		}
		select {
		case <-fired:
		case <-a.recheck:
		case _, ok := <-a.steps:
			if ok {
				notify(a.moved)
			} else {
				a.steps = nil
			}
		case <-a.quit:
		}
		if t != nil {
			t.Stop()
		}
		select {
		case <-a.quit:
			return
		default:
		}
	}
}

// attempts bounds how often run makes the timer again because the clock was moved meanwhile: a clock that runs a thousand times
// as fast as the machine's moves each time. After the last attempt run keeps the timer, however late it fires.
const attempts = 5

// check reports the deadline to C if the wall clock shows it. Otherwise it returns how long to sleep, and false if no
// deadline is set. If the wall clock is set after check has read it, a Stepper reports that; any other clock is read
// again within MaxStepDelay.
func (a *Alarm) check() (sleep time.Duration, now time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.armed = a.due
	select {
	case <-a.recheck: // this check answers it
	default:
	}
	if a.due == never {
		return 0, now, false
	}
	now = a.clock.Now()
	if now.UnixMilli() < a.seen {
		notify(a.moved)
	}
	a.seen = now.UnixMilli()
	sleep = time.UnixMilli(a.due).Sub(now)
	if sleep <= 0 {
		a.rung, a.due, a.armed = a.due, never, never
		notify(a.c)
		return 0, now, false
	}
	if a.steps == nil {
		sleep = min(sleep, MaxStepDelay)
	}
	return sleep, now, true
}
