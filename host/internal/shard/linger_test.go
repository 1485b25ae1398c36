package shard

import (
	"errors"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host/internal/run"
)

// while is a period that the shard waits for.
type while struct {
	lasts   time.Duration
	f       func(now int64)
	stopped bool
	over    bool
}

// After lets the test decide when the period is over.
func (w *world) After(d time.Duration, f func(now int64)) (stop func()) {
	x := &while{lasts: d, f: f}
	w.whiles = append(w.whiles, x)
	return func() { x.stopped = true }
}

// whilesEnd ends all periods that the shard waits for, of which there must be at least one.
func (w *world) whilesEnd() {
	w.t.Helper()
	ended := 0
	for _, x := range w.whiles {
		if !x.stopped && !x.over {
			x.over = true
			x.f(w.now)
			ended++
		}
	}
	if ended == 0 {
		w.t.Fatal("no start waits for its first activation")
	}
	w.check()
}

// lingers returns the wait of an uncommitted start, which must be the n-th and newest one and still in progress.
func (w *world) lingers(n int) *while {
	w.t.Helper()
	if len(w.whiles) != n {
		w.t.Fatalf("%d starts have waited, want %d", len(w.whiles), n)
	}
	x := w.whiles[n-1]
	if x.stopped || x.lasts != limits.StartLinger {
		w.t.Errorf("a start that is not committed waits for %v, stopped: %v", x.lasts, x.stopped)
	}
	return x
}

// A start is committed when its first activation has come to rest, or takes too long.
func TestStartLinger(t *testing.T) {
	w := newWorld(t, limits, 1)
	a, b := keyIn(1, 0), keyIn(1, 1)
	r := w.start(a)
	w.serveLoads()
	if w.begin() != nil {
		t.Fatal("a start is committed before its first activation had a chance")
	}
	w.lingers(1)
	w.whilesEnd()
	if n := w.pump(); n != 1 {
		t.Errorf("%d commits", n)
	}
	w.want(r, nil)
	w.start(b)
	w.serveLoads()
	x := w.lingers(2)
	w.complete(w.ready(b))
	if n := w.pump(); n != 1 {
		t.Errorf("%d commits of a run that ends in its first activation", n)
	}
	if !x.stopped {
		t.Error("a start is committed, and its wait goes on")
	}
	x.f(w.now) // its timer had already fired when it was stopped
	if n := w.pump(); n != 0 {
		t.Errorf("%d commits", n)
	}
}

// An uncommitted start keeps waiting while other runs are committed, and while its own commit is impossible because
// its guest has begun.
func TestStartLingersOn(t *testing.T) {
	w := newWorld(t, limits, 1)
	a, b := keyIn(1, 0), keyIn(1, 1)
	start := w.start(a)
	w.serveLoads()
	x := w.lingers(1)
	w.start(b)
	w.serveLoads()
	w.complete(w.ready(b))
	if n := w.pump(); n != 1 || x.stopped {
		t.Errorf("%d commits of another run, the wait is stopped: %v", n, x.stopped)
	}
	signal := w.deliver(a, run.Signal{Name: "x"}) // for which it would be committed at once
	l := w.ready(a)
	if w.begin() != nil {
		t.Fatal("a run is committed that its guest has")
	}
	if x.stopped {
		t.Error("the wait of a start that is not committed is stopped")
	}
	w.whilesEnd()
	w.guest(l, run.GuestYields{Lease: l})
	if n := w.pump(); n != 1 {
		t.Errorf("%d commits", n)
	}
	w.want(start, nil)
	w.want(signal, nil)
}

// The wait of a start whose partition was lost ends, and has no effect.
func TestLingerOfALostStart(t *testing.T) {
	w := newWorld(t, limits, 1)
	r := w.start(keyIn(1, 0))
	w.serveLoads()
	w.lingers(1)
	w.s.Lose(w.s.Partition(1), errors.New("released"))
	w.whilesEnd()
	if n := w.pump(); n != 0 {
		t.Errorf("%d commits", n)
	}
	w.want(r, ErrLost)
}
