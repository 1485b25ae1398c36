package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestFake(t *testing.T) {
	f := NewFake(time.UnixMilli(0))
	late, early := f.NewTimer(2*time.Second), f.NewTimer(time.Second)
	now := f.NewTimer(0)
	<-now.C()
	if next, ok := f.Next(); !ok || next.UnixMilli() != 1000 {
		t.Fatalf("next %v %v", next, ok)
	}
	f.Advance(1500 * time.Millisecond)
	<-early.C()
	select {
	case <-late.C():
		t.Fatal("fired early")
	default:
	}
	if !late.Stop() || late.Stop() || early.Stop() {
		t.Fatal("stop answers wrongly")
	}
	f.Set(time.UnixMilli(0))
	if f.Now().UnixMilli() != 0 {
		t.Fatal("the clock does not go back")
	}
	if _, ok := f.Next(); ok {
		t.Fatal("a stopped timer is still there")
	}
}

func TestFakeStep(t *testing.T) {
	f := NewFake(time.UnixMilli(0))
	steps, stop := f.Steps()
	_, stopOther := f.Steps()
	first, second := f.NewTimer(time.Second), f.NewTimer(2*time.Second)
	f.Step(time.Hour)
	f.Step(-2 * time.Hour)
	<-steps
	if len(steps) != 0 {
		t.Error("two steps fill a channel of one")
	}
	if got := f.Now(); !got.Equal(time.UnixMilli(0).Add(-time.Hour)) {
		t.Errorf("it is %v", got)
	}
	if at, ok := f.Next(); !ok || at.Sub(f.Now()) != time.Second {
		t.Errorf("the next timer fires at %v, %v", at, ok)
	}
	f.Advance(time.Second)
	if len(first.C()) != 1 || len(second.C()) != 0 {
		t.Error("a timer does not fire after the time that it had left")
	}
	stop()
	stop()
	f.Step(time.Hour)
	if len(steps) != 0 || len(f.steps) != 1 {
		t.Error("a step is reported after stop")
	}
	stopOther()
}

// TestFakeSetsBack checks that Set does not change when timers fire, and reports no step.
func TestFakeSetsBack(t *testing.T) {
	f := NewFake(time.UnixMilli(0))
	steps, stop := f.Steps()
	defer stop()
	timer := f.NewTimer(time.Second)
	f.Set(time.UnixMilli(-1000))
	f.Advance(time.Second)
	if len(timer.C()) != 0 {
		t.Error("fired early")
	}
	f.Advance(time.Second)
	if len(timer.C()) != 1 || len(steps) != 0 {
		t.Error("not fired, or a step was reported")
	}
}

func TestSystem(t *testing.T) {
	c := System()
	timer := c.NewTimer(time.Millisecond)
	from := c.Now()
	<-timer.C()
	if c.Now().Before(from) || timer.Stop() {
		t.Fatal("the system clock is wrong")
	}
}

// A timer that is reset fires once more, whatever its state was.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tm Timer
		for _, c := range []Clock{System(), Clock(NewFake(time.Unix(0, 0)))} {
			fake, _ := c.(*Fake)
			pass := func(d time.Duration) {
				if fake != nil {
					fake.Advance(d)
				} else {
					<-System().NewTimer(d).C()
				}
			}
			tm = Again(c, nil, time.Second)
			pass(2 * time.Second) // fired, and nobody has received
			for _, stop := range []bool{false, true, false} {
				if stop {
					tm.Stop()
				}
				tm = Again(c, tm, time.Minute)
				pass(59 * time.Second)
				select {
				case <-tm.C():
					t.Errorf("%T: it fires too early", c)
				default:
				}
				pass(time.Second)
				synctest.Wait()
				select {
				case <-tm.C():
				default:
					t.Errorf("%T: it does not fire", c)
				}
			}
		}
	})
}
