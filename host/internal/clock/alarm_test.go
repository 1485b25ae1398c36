package clock

import (
	"fmt"
	"math/rand"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// plain hides that a clock is a Stepper, like an embedder's clock that is not one.
type plain struct{ Clock }

const noon = int64(1_767_614_400_000) // unix ms

func ms(d time.Duration) int64 { return noon + d.Milliseconds() }

// both runs a test with a clock that reports its steps and with one that does not.
func both(t *testing.T, test func(t *testing.T, f *Fake, a *Alarm)) {
	for _, steps := range []bool{true, false} {
		t.Run(fmt.Sprintf("steps=%v", steps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := NewFake(time.UnixMilli(noon))
				var c Clock = f
				if !steps {
					c = plain{f}
				}
				a := NewAlarm(c)
				defer a.Close()
				test(t, f, a)
			})
		})
	}
}

// rings reports whether the alarm has rung, after all goroutines are idle.
func rings(a *Alarm) bool {
	synctest.Wait()
	select {
	case <-a.C():
		return true
	default:
		return false
	}
}

func want(t *testing.T, a *Alarm, ring bool, when string) {
	t.Helper()
	if rings(a) != ring {
		t.Fatalf("%s: rings = %v", when, !ring)
	}
}

// pass lets time pass in small steps, as on a machine.
func pass(f *Fake, d time.Duration) {
	for slice := time.Minute; d > 0; d -= slice {
		f.Advance(min(d, slice))
		synctest.Wait()
	}
}

func TestAlarm(t *testing.T) {
	both(t, func(t *testing.T, f *Fake, a *Alarm) {
		want(t, a, false, "without a deadline")
		a.Set(noon)
		want(t, a, true, "at its deadline")
		want(t, a, false, "a second time")
		a.Set(ms(-time.Hour))
		want(t, a, true, "after its deadline")

		a.Set(ms(time.Hour))
		pass(f, time.Hour-time.Millisecond)
		want(t, a, false, "a millisecond early")
		f.Advance(time.Millisecond - time.Nanosecond)
		want(t, a, false, "a nanosecond early")
		f.Advance(time.Nanosecond)
		want(t, a, true, "after an hour")
		if _, ok := f.Next(); ok {
			t.Fatal("a timer is left")
		}
	})
}

func TestAlarmIsSetAgain(t *testing.T) {
	both(t, func(t *testing.T, f *Fake, a *Alarm) {
		a.Set(ms(10 * time.Minute))
		synctest.Wait()
		a.Set(ms(5 * time.Minute))
		pass(f, 5*time.Minute)
		want(t, a, true, "after it was set earlier")
		if at, ok := f.Next(); ok {
			t.Fatal("a timer is left for", at)
		}
		pass(f, 5*time.Minute)
		want(t, a, false, "at the deadline that was replaced")

		a.Set(ms(20 * time.Minute))
		synctest.Wait()
		a.Set(ms(30 * time.Minute))
		pass(f, 10*time.Minute)
		want(t, a, false, "at the deadline that was replaced by a later one")
		a.Set(ms(25 * time.Minute))
		pass(f, 5*time.Minute)
		want(t, a, true, "after it was set later, and then less late")
		a.Set(ms(30 * time.Minute))
		a.Set(ms(30 * time.Minute))
		pass(f, 5*time.Minute)
		want(t, a, true, "after it was set twice to the same deadline")

		a.Set(ms(40 * time.Minute))
		a.Clear()
		pass(f, time.Hour)
		want(t, a, false, "after Clear")
		if _, ok := f.Next(); ok {
			t.Fatal("a timer is left")
		}
	})
}

// TestAlarmWithdraws checks that changing the deadline withdraws a report that was not received.
func TestAlarmWithdraws(t *testing.T) {
	both(t, func(t *testing.T, f *Fake, a *Alarm) {
		a.Set(noon)
		synctest.Wait()
		a.Set(ms(time.Minute))
		want(t, a, false, "before the new deadline")
		pass(f, time.Minute)
		want(t, a, true, "at the new deadline")

		a.Set(noon)
		synctest.Wait()
		a.Set(noon - 1)
		if len(a.C()) != 1 {
			t.Error("a report is withdrawn for a deadline that is not later")
		}
		want(t, a, true, "with a new deadline that is not later")
		want(t, a, false, "twice for two deadlines")

		a.Set(noon)
		synctest.Wait()
		a.Clear()
		want(t, a, false, "after Clear")
	})
}

// TestAlarmArmsLittle checks that no timer is made for a deadline that is not earlier.
func TestAlarmArmsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{Fake: NewFake(time.UnixMilli(noon))}
		a := NewAlarm(c)
		defer a.Close()
		for i := range 1000 {
			a.Set(ms(time.Minute + time.Duration(i)*time.Second))
			synctest.Wait()
		}
		if c.timers != 1 {
			t.Errorf("%d timers for one deadline that is moved back", c.timers)
		}
		if n := testing.AllocsPerRun(100, func() { a.Set(ms(time.Hour)) }); n != 0 {
			t.Errorf("Set allocates %v times", n)
		}
	})
}

type counting struct {
	*Fake

	timers int
}

func (c *counting) NewTimer(d time.Duration) Timer {
	c.timers++
	return c.Fake.NewTimer(d)
}

func TestAlarmAfterStepForward(t *testing.T) {
	both(t, func(t *testing.T, f *Fake, a *Alarm) {
		a.Set(ms(30 * time.Minute))
		synctest.Wait()
		f.Step(2 * time.Hour)
		synctest.Wait()
		f.Advance(MaxStepDelay)
		want(t, a, true, "a second after a step of two hours")

		a.Set(ms(5 * time.Hour))
		synctest.Wait()
		f.Step(time.Hour) // to three hours and a second
		pass(f, 2*time.Hour-2*time.Second)
		want(t, a, false, "after a step that does not reach the deadline")
		pass(f, time.Second)
		want(t, a, true, "at the deadline")
	})
}

// TestAlarmSaysThatTheClockWasSetBack sets the clock back while an alarm waits: it does not ring, but reports the
// change.
func TestAlarmSaysThatTheClockWasSetBack(t *testing.T) {
	both(t, func(t *testing.T, f *Fake, a *Alarm) {
		a.Set(ms(time.Hour))
		pass(f, time.Minute)
		if len(a.Moved()) > 0 {
			t.Error("the clock was not set")
		}
		f.Step(-24 * time.Hour)
		pass(f, MaxStepDelay)
		want(t, a, false, "set back")
		if len(a.Moved()) == 0 {
			t.Error("nobody is told")
		}
	})
}

// TestAlarmIsToldOfSteps checks that an alarm whose clock reports steps is never late, and does not read the clock in
// between.
func TestAlarmIsToldOfSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{Fake: NewFake(time.UnixMilli(noon))}
		a := NewAlarm(c)
		a.Set(ms(30 * time.Minute))
		for range 29 {
			pass(c.Fake, time.Minute)
		}
		if c.timers != 1 {
			t.Errorf("%d timers in 29 minutes", c.timers)
		}
		c.Step(time.Minute)
		want(t, a, true, "after a step")
		a.Close()
		if len(c.steps) != 0 {
			t.Error("a closed alarm still listens")
		}
	})
}

func TestAlarmAfterStepBack(t *testing.T) {
	both(t, func(t *testing.T, f *Fake, a *Alarm) {
		a.Set(ms(30 * time.Minute))
		synctest.Wait()
		f.Step(-time.Hour) // to 11:00
		pass(f, 90*time.Minute-time.Millisecond)
		want(t, a, false, "before the wall clock shows its deadline")
		f.Advance(time.Millisecond)
		want(t, a, true, "when the wall clock shows its deadline")

		a.Set(ms(2 * time.Hour))
		synctest.Wait()
		f.Step(-time.Hour) // to 11:30
		a.Set(ms(-20 * time.Minute))
		pass(f, 10*time.Minute-time.Millisecond)
		want(t, a, false, "before the deadline of after the step")
		f.Advance(time.Millisecond)
		want(t, a, true, "at the deadline of after the step")
	})
}

// TestAlarmIsNotEarly checks that the alarm waits again if its timer fires before the wall clock reaches the
// deadline.
func TestAlarmIsNotEarly(t *testing.T) {
	both(t, func(t *testing.T, f *Fake, a *Alarm) {
		a.Set(ms(time.Second))
		synctest.Wait()
		f.Step(-time.Nanosecond)
		f.Advance(time.Second)
		want(t, a, false, "a nanosecond early, when a second has passed")
		f.Advance(time.Nanosecond)
		want(t, a, true, "after another nanosecond")
	})
}

// TestAlarmAfterGlitch checks that no alarm waits for a year after the clock was a year ahead for a moment.
func TestAlarmAfterGlitch(t *testing.T) {
	const year = 365 * 24 * time.Hour
	both(t, func(t *testing.T, f *Fake, a *Alarm) {
		a.Set(ms(time.Hour))
		synctest.Wait()
		f.Step(year)
		f.Step(-year)
		pass(f, time.Hour-time.Millisecond)
		want(t, a, false, "after a glitch that nobody has seen, early")
		f.Advance(time.Millisecond)
		want(t, a, true, "after a glitch that nobody has seen")

		f.Step(year)
		a.Set(ms(2 * time.Hour))
		f.Advance(MaxStepDelay)
		want(t, a, true, "a year ahead")
		a.Set(ms(year + 2*time.Hour))
		synctest.Wait()
		f.Step(-year)
		a.Set(ms(2 * time.Hour))
		pass(f, time.Hour)
		want(t, a, true, "after the year is gone again")
	})
}

// broken is a clock that cannot report steps, or stops reporting them.
type broken struct {
	plain

	steps <-chan struct{}
}

func (b broken) Steps() (<-chan struct{}, func()) { return b.steps, func() {} }

func TestAlarmWithoutReports(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	for _, steps := range []<-chan struct{}{nil, closed} {
		synctest.Test(t, func(t *testing.T) {
			f := NewFake(time.UnixMilli(noon))
			a := NewAlarm(broken{plain{f}, steps})
			defer a.Close()
			a.Set(ms(time.Hour))
			synctest.Wait()
			f.Step(2 * time.Hour)
			f.Advance(MaxStepDelay)
			want(t, a, true, "a second after a step")
		})
	}
}

func TestAlarmClose(t *testing.T) {
	both(t, func(t *testing.T, _ *Fake, a *Alarm) {
		a.Set(noon)
		synctest.Wait()
		a.Close()
		a.Close()
		want(t, a, false, "after Close")
		a.Set(noon)
		want(t, a, false, "when it is set after Close")
	})
}

// TestAlarmRace sets an alarm from several goroutines while it fires, and waits for the last deadline. If that were
// missed, the test would hang.
func TestAlarmRace(t *testing.T) {
	f := NewFake(time.UnixMilli(noon))
	quit, done := make(chan struct{}), make(chan struct{})
	go func() { // advance the clock outside of a synctest bubble, which is too slow under the race detector
		defer close(done)
		for {
			select {
			case <-quit:
				return
			default:
				f.Advance(100 * time.Microsecond)
				runtime.Gosched()
			}
		}
	}()
	defer func() {
		close(quit)
		<-done
	}()
	for _, c := range []Clock{f, plain{f}} {
		a := NewAlarm(c)
		defer a.Close()
		var mu sync.Mutex // like the lock under which a caller computes its deadline
		due := int64(0)
		set := func(in int64) {
			mu.Lock()
			defer mu.Unlock()
			due = f.Now().UnixMilli() + in
			a.Set(due)
		}
		for round := range int64(2000) {
			var setters sync.WaitGroup
			for i := range int64(3) {
				rnd := rand.New(rand.NewSource(3*round + i))
				setters.Go(func() {
					for range 4 {
						set(rnd.Int63n(3))
						if rnd.Intn(2) == 0 {
							<-f.NewTimer(time.Duration(rnd.Intn(1500)) * time.Microsecond).C()
						}
						select {
						case <-a.C():
							set(1)
						default:
						}
					}
				})
			}
			setters.Wait()
			<-a.C()
			if now := f.Now().UnixMilli(); now < due {
				t.Fatalf("round %d: rings at %d, want %d", round, now, due)
			}
		}
	}
}

// TestAlarmHandshake sets the next deadline after each ring, from another goroutine than the receiver's.
func TestAlarmHandshake(t *testing.T) {
	a := NewAlarm(System())
	defer a.Close()
	for i := range 20_000 {
		due := time.Now().UnixMilli() - int64(i%2)
		go a.Set(due)
		<-a.C()
		if now := time.Now().UnixMilli(); now < due {
			t.Fatalf("rings at %d, want %d", now, due)
		}
	}
	due := time.Now().UnixMilli() + 5
	a.Set(due)
	<-a.C()
	if now := time.Now().UnixMilli(); now < due {
		t.Fatalf("rings at %d, want %d", now, due)
	}
}

func BenchmarkAlarmSet(b *testing.B) {
	a := NewAlarm(System())
	defer a.Close()
	far := time.Now().Add(time.Hour).UnixMilli()
	b.Run("later", func(b *testing.B) {
		for b.Loop() {
			far++
			a.Set(far)
		}
	})
	b.Run("earlier", func(b *testing.B) {
		for b.Loop() {
			far--
			a.Set(far)
		}
	})
	b.Run("ring", func(b *testing.B) {
		for b.Loop() {
			a.Set(0)
			<-a.C()
		}
	})
}
