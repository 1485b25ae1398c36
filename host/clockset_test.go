package host_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/clock"
)

// jumpingClock jumps forward or back at one of its readings.
type jumpingClock struct {
	*clock.Fake
	by   time.Duration
	left atomic.Int64 // readings until the jump; negative = it has jumped, or never will
}

func (c *jumpingClock) Now() time.Time {
	if c.left.Add(-1) == 0 {
		c.Step(c.by)
	}
	return c.Fake.Now()
}

// jumpAt bounds the number of readings before a jump: it exceeds the readings between an alarm and the end of the run
// that it wakes.
const jumpAt = 14

// TestSetBackWhileWaking sets the clock back slightly while a run wakes: at each of the clock's readings in turn.
func TestSetBackWhileWaking(t *testing.T) {
	c := &jumpingClock{Fake: clock.NewFake(hosttest.Epoch), by: -50 * time.Millisecond}
	k := newClocked(t, c, c.Fake)
	for n := range jumpAt {
		id := fmt.Sprint("r", n)
		_, err := k.Start(ctx, "nap", 10_000, host.WithRunID(id))
		do(t, err)
		k.pass(9*time.Second, time.Second)
		c.left.Store(int64(n + 1))
		c.Advance(time.Second)
		k.settle()
		c.left.Store(-1)
		k.pass(100*time.Millisecond, 50*time.Millisecond)
		if s := k.status(id); s != host.Completed {
			t.Errorf("set back at reading %d: %s", n+1, s)
		}
	}
}

// TestReadFailsAtWake fails reads of the store when a run is due.
func TestReadFailsAtWake(t *testing.T) {
	f, s := faultyHost(t)
	for _, op := range []string{"read run", "read index"} {
		for _, n := range []int{1, 5} {
			id := fmt.Sprint(op[5:], n)
			_, err := f.Start(ctx, "nap", 3_600_000, host.WithRunID(id))
			do(t, err)
			f.Settle()
			left := s.failing(op, n)
			f.Advance(time.Hour + 10*time.Second)
			r := f.is(id, host.Completed)
			if late := r.Ended.Sub(r.Created) - time.Hour; late > 10*time.Second || left.Load() > 0 {
				t.Errorf("%s fails %d times: %v late, %d left", op, n, late, left.Load())
			}
		}
	}
}

// TestDueWhileCommitting lets the deadline of a sleep pass during the commit that records it.
func TestDueWhileCommitting(t *testing.T) {
	f, s := faultyHost(t)
	s.set(func(op string) error {
		if op == "commit" {
			f.Clock.Advance(time.Second)
		}
		return nil
	})
	for i := range 20 {
		id := fmt.Sprint("r", i)
		_, err := f.Start(ctx, "nap", 1000, host.WithRunID(id))
		do(t, err)
		f.Settle()
		f.is(id, host.Completed)
	}
}

// plainClock is a clock that does not report when it is set.
type plainClock struct{ fake *clock.Fake }

func (c plainClock) Now() time.Time                           { return c.fake.Now() }
func (c plainClock) NewTimer(d time.Duration) host.ClockTimer { return c.fake.NewTimer(d) }

// TestClockSetForward sets the clock forward past the deadline of a run.
func TestClockSetForward(t *testing.T) {
	f := newMixed(t)
	f.begin("nap", 1_800_000)
	f.Settle()
	f.Clock.Step(2 * time.Hour)
	f.Settle()
	f.is("r", host.Completed)

	fake := clock.NewFake(hosttest.Epoch)
	k := newClocked(t, plainClock{fake}, fake)
	_, err := k.Start(ctx, "nap", 1_800_000, host.WithRunID("r"))
	do(t, err)
	k.pass(time.Second, time.Second)
	fake.Step(2 * time.Hour)
	fake.Advance(time.Second) // a clock without Steps is read once per second
	k.settle()
	if s := k.status("r"); s != host.Completed {
		t.Error(s)
	}
}

// TestClockSetBack sets the clock back by an hour: a new run sleeps for its full duration, and a run that already
// slept does so too, counted from the jump.
func TestClockSetBack(t *testing.T) {
	f := newMixed(t)
	_, err := f.Start(ctx, "nap", 1000, host.WithRunID("before"))
	do(t, err)
	f.Advance(time.Minute)
	_, err = f.Start(ctx, "nap", 10_000, host.WithRunID("asleep"))
	do(t, err)
	f.Settle()
	f.Clock.Step(-time.Hour)
	f.begin("nap", 1000)
	f.Advance(999 * time.Millisecond)
	f.is("r", host.Sleeping)
	f.Advance(time.Millisecond)
	f.is("r", host.Completed)
	f.Advance(9*time.Second - time.Millisecond)
	f.is("asleep", host.Sleeping)
	f.Advance(time.Millisecond)
	f.is("asleep", host.Completed)
}

// TestGlitch moves the clock to the next year for a moment. Deadlines that pass by then fire. Waits that begin in
// that moment, or after it, do not last a year.
func TestGlitch(t *testing.T) {
	const year = 365 * 24 * time.Hour
	f := newMixed(t)
	_, err := f.Start(ctx, "nap", 3_600_000, host.WithRunID("before"))
	do(t, err)
	f.Settle()
	f.Clock.Step(year)
	_, err = f.Start(ctx, "nap", 1000, host.WithRunID("glitch"))
	do(t, err)
	f.Settle()
	f.is("before", host.Completed)
	f.Clock.Step(-year)
	f.begin("nap", 1000)
	f.Advance(time.Second)
	f.is("r", host.Completed)
	f.is("glitch", host.Completed)
	for range 3 { // after a restart, only the index is left
		f.Reopen()
		id := f.Clock.Now().Format("after-150405")
		_, err = f.Start(ctx, "nap", 40_000, host.WithRunID(id))
		do(t, err)
		f.Advance(40 * time.Second)
		f.is(id, host.Completed)
	}
}

// TestPausedPastItsDeadline pauses runs until their deadlines have passed, and then performs operator actions: the
// deadline has ended the runs, or will in a minute if they take a cancel.
func TestPausedPastItsDeadline(t *testing.T) {
	actions := map[string]func(f *mixed) error{
		"unpause":   func(f *mixed) error { _, err := f.Unpause(ctx, "r"); return err },
		"terminate": func(f *mixed) error { return f.Terminate(ctx, "r") },
		"cancel":    func(f *mixed) error { _, err := f.Cancel(ctx, "r"); return err },
		"signal":    func(f *mixed) error { return f.Signal(ctx, "r", "x", 1) },
		"wake":      func(f *mixed) error { _, err := f.Wake(ctx, "r", ""); return err },
	}
	for name, act := range actions {
		for _, workflow := range []string{"nap", "gentle"} {
			for _, restart := range []bool{false, true} {
				t.Run(fmt.Sprint(name, workflow, restart), func(t *testing.T) {
					if testing.Short() && !restart {
						t.Skip("half of it will do")
					}
					f := newMixed(t)
					f.begin(workflow, 86_400_000, host.WithTimeout(time.Hour))
					f.Settle()
					_, err := f.Pause(ctx, "r")
					do(t, err)
					f.Advance(time.Hour - time.Millisecond)
					f.is("r", host.Paused)
					if restart {
						f.Crash()
						f.Settle()
						f.is("r", host.Paused)
					}
					f.Advance(time.Millisecond)
					if workflow == "gentle" { // it is told, and would clean up
						f.is("r", host.Paused)
						f.Advance(time.Minute)
					}
					f.is("r", host.Failed)
					if err := act(f); !errors.Is(err, host.ErrTerminal) {
						t.Error(err)
					}
					do(t, f.Delete(ctx, "r"))
				})
			}
		}
	}
}

// TestDeadlineBetweenReadings moves the clock past a run's deadline while the run wakes to retry a step: at each of
// the clock's readings in turn.
func TestDeadlineBetweenReadings(t *testing.T) {
	c := &jumpingClock{Fake: clock.NewFake(hosttest.Epoch), by: time.Second}
	k := newClocked(t, c, c.Fake)
	k.fails.Store(1 << 30)
	for n := range jumpAt {
		id := fmt.Sprint("r", n)
		_, err := k.Start(ctx, "patient", 0, host.WithRunID(id), host.WithTimeout(100500*time.Millisecond))
		do(t, err)
		k.pass(99*time.Second, 10*time.Second)
		c.left.Store(int64(n + 1))
		c.Advance(time.Second)
		k.settle()
		c.left.Store(-1)
		k.pass(time.Second, 500*time.Millisecond)
		if s := k.status(id); s != host.Failed {
			t.Errorf("over the deadline at reading %d: %s", n+1, s)
		}
	}
}

// TestRetriesAfterClockSetBack sets the clock back by a year after an operation failed once: it is retried at once.
func TestRetriesAfterClockSetBack(t *testing.T) {
	for _, op := range []string{"read version of other", "read run", "read inbox"} {
		f, s := faultyHost(t)
		_, err := f.Upload(ctx, "other", versioned(`"other"`))
		do(t, err)
		f.begin("parent", kid{Workflow: "other", SleepMs: 1000})
		f.Settle()
		left := s.failing(op, 1)
		f.Advance(time.Second)
		if r := f.is("r", host.Waiting); left.Load() > 0 {
			t.Errorf("%s did not fail: %+v", op, r)
		}
		f.Clock.Step(-365 * 24 * time.Hour)
		until(t, f.Host.Host, "r", func(r host.Run) bool { return r.Status == host.Completed })
	}
}

// TestFaultAfterClockSetBack sets the clock back by a year after a host fault: the activation is repeated.
func TestFaultAfterClockSetBack(t *testing.T) {
	l, modules, _ := newFaulty(t)
	id := l.begin("until", 3_600_000)
	l.Settle()
	modules.Store(1)
	l.Reopen() // which forgets the compiled module
	l.Advance(time.Hour)
	if r, err := l.Get(ctx, id); err != nil || r.Status != host.Queued {
		t.Fatalf("%+v %v", r, err)
	}
	l.Clock.Step(-365 * 24 * time.Hour)
	until(t, l.Host.Host, id, func(r host.Run) bool { return r.Status == host.Completed })
}

// TestCrashAfterClockSetBack sets the clock back by an hour and kills the host after a commit, during an attempt: the
// next host repeats the attempt at once.
func TestCrashAfterClockSetBack(t *testing.T) {
	f := newMixed(t)
	f.begin("told", 0)
	<-f.begun
	f.Clock.Step(-time.Hour)
	do(t, f.Signal(ctx, "r", "other", "x"))
	f.Crash()
	soon(t, "the next attempt", func() { <-f.begun })
}
