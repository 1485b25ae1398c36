package shard

import (
	"errors"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// TestAdmittedWhileInactive delivers or refuses a place while the host drains, and then resumes the host.
func TestAdmittedWhileInactive(t *testing.T) {
	for _, place := range []any{nil, "a place"} {
		for _, mem := range []bool{false, true} {
			w := newWorld(t, limits, 1)
			key := keyIn(1, 0)
			w.waitsForPlace(key)
			w.s.SetActive(w.now, false)
			if mem {
				w.deliver(key, run.Signal{Name: "x"})
				w.pump()
			}
			a := w.asks[key][0]
			w.Withdraw(key, a.Handle)
			w.s.Admitted(w.now, key, run.Admitted{Handle: a.Handle, Handler: a.Handler, Place: place})
			for range 10 {
				w.serveLoads()
				w.serveDues()
				if b := w.begin(); b != nil {
					w.end(b, nil)
				}
			}
			if rs := w.s.Partition(1).residents[key]; rs != nil {
				w.forget(key)
			}
			w.now += 1000
			w.s.SetActive(w.now, true)
			w.pump()
			if !w.Asks(key) {
				t.Errorf("place %v, in memory %v: it does not ask again: %+v", place, mem, w.state(key).Reason)
			}
		}
	}
}

// TestDeadlineWhileWaiting lets the deadline pass of a run that waits for a place and is not in memory, also after a
// failed read of the index.
func TestDeadlineWhileWaiting(t *testing.T) {
	for _, fail := range []bool{false, true} {
		w := newWorld(t, limits, 1)
		key := keyIn(1, 0)
		delete(w.handlers, "charge")
		n := newRun(key)
		n.TimeoutMs = 3600_000
		w.deliver(key, run.Start{New: n})
		w.pump()
		l := w.ready(key)
		w.call(l, stepCall(1))
		w.waits(l, 1)
		w.pump()
		if w.s.Partition(1).residents[key] != nil {
			w.forget(key)
		}
		if fail {
			p := w.s.Partition(1)
			w.s.DueRead(w.now, p, nil, false, 0, errors.New("x"))
		}
		w.pump()
		if w.s.Partition(1).residents[key] != nil {
			w.forget(key)
		}
		w.later(30 * time.Second)
		if w.s.Partition(1).residents[key] != nil {
			w.forget(key)
		}
		w.later(2 * time.Hour)
		if st := w.state(key); !st.Status.Terminal() {
			t.Errorf("fail %v: %v %s", fail, st.Status, st.Reason)
		}
		if w.Asks(key) {
			t.Error("asks")
		}
	}
}

// TestPlaceForARunThatWasLost has a place in flight while the partition is lost and acquired again.
func TestPlaceForARunThatWasLost(t *testing.T) {
	w := newWorld(t, limits, 1)
	key := keyIn(1, 0)
	w.waitsForPlace(key)
	a := w.asks[key][0]
	w.Withdraw(key, a.Handle) // granted, on its way
	w.s.Lose(w.s.Partition(1), store.ErrFenced)
	w.acquire(1)
	w.s.Admitted(w.now, key, run.Admitted{Handle: a.Handle, Handler: a.Handler, Place: "p"})
	w.pump()
	if len(w.starts)+len(w.returned) != 1 {
		t.Errorf("%d %d", len(w.starts), len(w.returned))
	}
	if len(w.starts) == 1 && w.Asks(key) {
		t.Error("asks, and has begun")
	}
}
