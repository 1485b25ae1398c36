package shard

import (
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// TestHandledIsBounded: a handler that is registered late wakes runs as their timers would: no more than Busy at a
// time. And a run that has ended meanwhile waits for nothing.
func TestHandledIsBounded(t *testing.T) {
	few := limits
	few.Woken = 2
	w := newWorld(t, few, 1)
	delete(w.handlers, "charge")
	const n = 20
	for i := range n {
		key := keyIn(1, i)
		w.start(key)
		w.pump()
		l := w.ready(key)
		w.call(l, store.Entry{Kind: store.KindStep, Name: "pay", Handle: 1, Target: abi.HandlerPrefix + "charge"})
		w.waits(l, 1)
		w.pump()
		if i%2 == 0 {
			w.deliver(key, run.Terminate{})
			w.pump()
		}
		if w.s.Partition(1).residents[key] != nil {
			w.forget(key)
		}
	}
	p := w.s.Partition(1)
	if got := len(p.missing["charge"]); got != n/2 {
		t.Errorf("%d runs are remembered that wait for the handler, want %d: the others have ended", got, n/2)
	}
	w.handlers["charge"] = true
	w.s.Handled(w.now, "charge")
	w.s.Tick(w.now)
	if len(w.loads) > few.Woken {
		t.Errorf("%d runs are read at once, Busy is %d", len(w.loads), few.Woken)
	}
	w.pump()
}
