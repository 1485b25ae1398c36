package partition

import (
	"errors"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// An event comes while the guest computes: the guest is asked to yield, once, the event is committed with what the guest has
// done so far, and the guest goes on.
func TestYield(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.start(a)
	w.pump()
	l := w.ready(a)
	w.call(l, store.Entry{Kind: store.KindEmit, Name: "x"})
	r1, r2 := w.deliver(a, run.Signal{Name: "x"}), w.deliver(a, run.Signal{Name: "y"})
	w.unanswered(r1)
	if len(w.yields) != 1 {
		t.Fatalf("asked to yield %d times", len(w.yields))
	}
	w.guest(l, run.GuestYields{Lease: l})
	if got := w.orders[l]; got[len(got)-1] != run.OrderGo || !l.Run().Lent() {
		t.Errorf("orders %v", got)
	}
	w.unanswered(r1)
	if n := w.pump(); n != 1 {
		t.Errorf("%d commits", n)
	}
	w.want(r1, nil)
	w.want(r2, nil)
	if n := w.state(a).Length; n != 5 {
		t.Errorf("%d entries are durable", n)
	}
	w.call(l, waitCall(1, "x"))
	w.complete(l)
	w.pump()
}

// A run is terminated while its guest computes: the guest is told when it yields.
func TestTerminateWhileComputing(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.start(a)
	w.pump()
	l := w.ready(a)
	r := w.deliver(a, run.Terminate{})
	w.guest(l, run.GuestYields{Lease: l})
	w.pump()
	w.want(r, nil)
	if got := w.orders[l]; got[len(got)-1] != run.OrderSuspend {
		t.Errorf("orders %v", got)
	}
}

// Notes and effects of guests reach the port.
func TestNotes(t *testing.T) {
	w := newWorld(t, limits, 1)
	a, b := keyIn(1, 0), keyIn(1, 1)
	w.start(a)
	w.pump()
	l := w.ready(a)
	w.guest(l, run.GuestEnds{Lease: l, End: run.End{Fault: errDisk}})
	w.pump()
	w.later(time.Second)
	l = w.ready(a)
	w.guest(l, run.GuestEnds{Lease: l, End: run.End{Mismatch: "entry 2 differs"}})
	w.pump()
	w.start(b)
	w.pump()
	l = w.ready(b)
	for range 10_000 {
		w.call(l, store.Entry{Kind: store.KindEmit, Name: "x"})
	}
	w.call(l, stepCall(1))
	w.waits(l, 1)
	w.pump()
	if len(w.noted(NoteFault)) != 1 || len(w.noted(NoteStuck)) != 1 || len(w.noted(NoteLong)) != 1 {
		t.Errorf("notes %v", w.notes)
	}
	w.deliver(b, run.Signal{Name: "x"})
	w.pump()
	w.guest(l, run.GuestYields{Lease: l}) // it does not compute: nothing is told twice
}

// A guest cancels a step that has begun: the attempt is told.
func TestTell(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.start(a)
	w.pump()
	l := w.ready(a)
	w.call(l, stepCall(1))
	w.call(l, waitCall(2, "go"))
	w.waits(l, 2)
	w.deliver(a, run.Signal{Name: "go"})
	w.pump()
	w.ready(a)
	w.call(l, store.Entry{Kind: store.KindWithdraw, Handle: 1})
	w.waits(l, 1)
	if len(w.tells) != 1 {
		t.Errorf("%d attempts are told", len(w.tells))
	}
	w.inside(a, run.AttemptEnds{Attempt: w.starts[0], Outcome: run.Outcome{Data: []byte("1")}})
	w.complete(w.ready(a))
	w.pump()
}

// A handler that is missing: the run goes on when it is registered.
func TestMissingHandler(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	delete(w.handlers, "charge")
	w.start(a)
	w.pump()
	l := w.ready(a)
	w.call(l, stepCall(1))
	w.waits(l, 1)
	w.pump()
	w.forget(a)
	w.later(time.Hour)
	if len(w.starts) != 0 {
		t.Fatal("a step without a handler starts")
	}
	w.handlers["charge"] = true
	w.s.Handled(w.now, "charge")
	w.s.Handled(w.now, "charge")
	w.pump()
	if len(w.starts) != 1 {
		t.Errorf("%d attempts start", len(w.starts))
	}
}

// Every iteration begins when the commit that ends the one before is on its way.
func TestContinue(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.start(a)
	w.pump()
	l := w.ready(a)
	w.guest(l, run.GuestEnds{Lease: l, End: run.End{Continue: &run.Continue{Input: []byte("2"), Version: 1,
		Told: func(int64) bool { return true }}}})
	if len(w.asked) != 1 {
		t.Error("the next iteration begins before the commit")
	}
	w.pump()
	w.complete(w.ready(a))
	w.pump()
	if st := w.state(a); st.Iteration != 1 || st.Status != store.Completed {
		t.Errorf("state %+v", st)
	}
}

// What was due while nobody was active is due on the next host: a step that the guest had come to is made there.
func TestDrainOfAComputingGuest(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.start(a)
	w.pump()
	l := w.ready(a)
	w.s.SetActive(w.now, false)
	w.call(l, stepCall(1))
	w.waits(l, 1)
	w.pump()
	w.s.Lose(w.s.Partition(1), errors.New("the host stops"))
	w.acquire(1)
	w.s.SetActive(w.now, true)
	w.pump()
	if len(w.starts) != 1 {
		t.Errorf("%d attempts start", len(w.starts))
	}
}
