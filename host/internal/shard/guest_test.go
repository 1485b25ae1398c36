package shard

import (
	"errors"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// An event arrives while the guest computes: the guest is asked to yield, once, the event is committed with the
// guest's calls so far, and the guest continues.
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

// A run is terminated while its guest computes: the guest learns it when it yields.
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
	if len(w.reported(ReportFault)) != 1 || len(w.reported(ReportStuck)) != 1 || len(w.reported(ReportLongJournal)) != 1 {
		t.Errorf("reports %v", w.reports)
	}
	w.deliver(b, run.Signal{Name: "x"})
	w.pump()
	w.guest(l, run.GuestYields{Lease: l}) // it does not compute: nothing is reported twice
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
	w.inside(a, run.AttemptEnds{Attempt: w.starts[0], Outcome: run.StepOutcome{Data: []byte("1")}})
	w.complete(w.ready(a))
	w.pump()
}

// A handler has no free place: the run leaves memory, and continues when there is one.
func TestNoPlace(t *testing.T) {
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
	w.admit(a)
	w.pump()
	if len(w.starts) != 1 || w.starts[0].Place != "charge" || w.Asks(a) {
		t.Errorf("%d attempts start", len(w.starts))
	}
}

// Each iteration begins when the commit that ends the previous one is in flight.
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

// What came due while the shard was inactive is done by the next host: it makes a step that the guest had reached.
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

// New runs that wait for a place are bounded: the excess waits as keys, and asks in order.
func TestStartsAreBounded(t *testing.T) {
	few := limits
	few.Starts, few.KeptBytes = 8, 0 // a workflow has a quarter
	w := newWorld(t, few, 1, 2)
	var rs []*reply
	for i := range 9 {
		rs = append(rs, w.start(keyIn(store.PartitionID(1+i%2), i)))
		w.pump()
	}
	if s := w.s.Stats(w.now); len(w.asked) != 2 || s.Queued != 9 {
		t.Fatalf("%d guests are asked for, %d runs are queued", len(w.asked), s.Queued)
	}
	for range 3 { // events for a waiting run do not make it wait twice
		w.deliver(keyIn(1, 4), run.Signal{Name: "x"})
		w.pump()
	}
	if s := w.s.Stats(w.now); s.Queued != 9 {
		t.Errorf("%d runs are queued", s.Queued)
	}
	w.deliver(keyIn(1, 2), run.Terminate{}) // two of those that wait end
	w.deliver(keyIn(2, 3), run.Terminate{})
	w.pump()
	for i := 0; i < len(w.asked); i++ {
		w.complete(w.ready(w.asked[i].l.Run().Key()))
		w.pump()
	}
	if len(w.asked) != 7 || w.s.Stats(w.now).Queued != 0 {
		t.Errorf("%d guests were asked for, want 7; %+v", len(w.asked), w.s.Stats(w.now))
	}
	for _, r := range rs[2:] {
		w.want(r, nil)
	}
}

// The runs that hold the places of the queue are lost with their partition: other runs get these places.
func TestStartsAfterALoss(t *testing.T) {
	few := limits
	few.Starts = 8 // a workflow has a quarter
	w := newWorld(t, few, 1, 2)
	w.start(keyIn(1, 0))
	w.start(keyIn(1, 1))
	w.serveLoads()
	w.start(keyIn(2, 0))
	w.start(keyIn(1, 2))
	w.pump()
	if len(w.asked) != 2 {
		t.Fatalf("%d guests are asked for", len(w.asked))
	}
	w.s.Lose(w.s.Partition(1), errDisk)
	w.pump()
	if len(w.asked) != 3 || w.asked[2].l.Run().Key() != keyIn(2, 0) {
		t.Errorf("%d guests are asked for", len(w.asked))
	}
	if s := w.s.Stats(w.now); s.Queued != 1 {
		t.Errorf("%d runs are queued", s.Queued)
	}
}

// A run that waits for its first place ends and is deleted, or cannot be read: its place in the queue becomes free.
func TestPlaceOfADeletedRun(t *testing.T) {
	few := limits
	few.Starts = 1
	w := newWorld(t, few, 1)
	a, b, c := keyIn(1, 0), keyIn(1, 1), keyIn(1, 2)
	for _, k := range []store.RunKey{a, b, c} {
		w.start(k)
		w.pump()
	}
	la := w.lastLease(a)
	w.forget(b)
	w.unread[b] = errDisk
	w.deliver(a, run.Terminate{})
	w.deliver(a, run.Delete{})
	w.pump()
	w.pump() // after b was found unreadable
	if w.lastLease(c) == nil {
		t.Error("the next run has no place")
	}
	w.guest(la, run.GuestReady{Lease: la})
	if got := w.orders[la]; len(got) != 1 || got[0] != run.OrderSuspend {
		t.Errorf("orders %v", got)
	}
	w.complete(w.ready(c))
	delete(w.unread, b)
	w.deliver(b, run.Signal{Name: "x"})
	w.pump()
	w.complete(w.ready(b))
	w.pump()
	if w.s.Stats(w.now).Queued != 0 {
		t.Errorf("stats %+v", w.s.Stats(w.now))
	}
}

// The host drains: nothing new starts, work in progress is recorded, and is resumed when the shard is active again.
func TestDrain(t *testing.T) {
	few := limits
	few.Starts, few.KeptBytes = 1, 0
	w := newWorld(t, few, 1)
	a, b, c, d := keyIn(1, 0), keyIn(1, 1), keyIn(1, 2), keyIn(1, 3)
	w.sleeper(d, 20*time.Second)
	w.start(a)
	w.pump()
	l := w.ready(a)
	w.call(l, stepCall(1))
	w.waits(l, 1)
	w.pump()
	w.start(b)
	w.start(c)
	w.pump()
	asked := len(w.asked)
	w.s.SetActive(w.now, false)
	lb := w.lastLease(b)
	w.inside(b, run.Refused{Lease: lb})
	w.inside(a, run.Evict{Lease: l})
	w.inside(a, run.AttemptEnds{Attempt: w.starts[0], Outcome: run.StepOutcome{Data: []byte("1")}})
	w.later(time.Minute)
	r, rd := w.deliver(c, run.Signal{Name: "x"}), w.deliver(d, run.Signal{Name: "x"}) // d is overdue
	w.pump()
	w.want(r, nil)
	w.want(rd, nil)
	if n := w.state(a).Length; n != 4 {
		t.Errorf("%d entries of a, want 4: the outcome is recorded", n)
	}
	if len(w.asked) != asked || len(w.starts) != 1 || len(w.reported(ReportWake)) != 0 {
		t.Errorf("%d guests, %d attempts, reports %v", len(w.asked)-asked, len(w.starts), w.reports)
	}
	w.s.SetActive(w.now, true)
	w.check()
	w.pump()
	for i := asked; i < len(w.asked); i++ {
		w.complete(w.ready(w.asked[i].l.Run().Key()))
		w.pump()
	}
	for _, k := range []store.RunKey{a, b, c, d} {
		if st := w.state(k); st.Status != store.Completed {
			t.Errorf("run %q is %s", k.ID, st.Status)
		}
	}
}

// A duplicate signal arrives while the guest computes and the first one is in flight: it needs no commit, and is
// answered together with the first one.
func TestDuplicateSignalWhileComputing(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.start(a)
	w.pump()
	l := w.ready(a)
	first := w.deliver(a, run.Signal{Name: "x", IdempotencyKey: "k"})
	w.guest(l, run.GuestYields{Lease: l})
	batch := w.begin()
	second := w.deliver(a, run.Signal{Name: "x", IdempotencyKey: "k"})
	w.guest(l, run.GuestYields{Lease: l})
	w.unanswered(second)
	w.end(batch, nil)
	w.want(first, nil)
	w.want(second, nil)
}

// When the shard becomes active, it processes the runs that it has in memory.
func TestRunsInMemoryBeginWhenActive(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.s.SetActive(w.now, false)
	r := w.start(a)
	w.pump()
	w.want(r, nil)
	w.s.SetActive(w.now, true)
	if len(w.asked) != 1 {
		t.Errorf("%d guests are asked for", len(w.asked))
	}
}
