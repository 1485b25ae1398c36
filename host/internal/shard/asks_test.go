package shard

import (
	"errors"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// waitsForPlace starts a run whose step waits for a place, and evicts the run from memory.
func (w *world) waitsForPlace(key store.RunKey) {
	w.t.Helper()
	delete(w.handlers, "charge")
	w.start(key)
	w.pump()
	l := w.ready(key)
	w.call(l, store.Entry{Kind: store.KindStep, Name: "pay", Handle: 1, Target: abi.HandlerPrefix + "charge"})
	w.waits(l, 1)
	w.pump()
	if w.s.Partition(key.Partition()).residents[key] != nil {
		w.forget(key)
	}
}

// TestPlaceThatNobodyNeeds returns the place of a run that ended, was deleted, cannot be read, or whose partition was
// lost.
func TestPlaceThatNobodyNeeds(t *testing.T) {
	key := keyIn(1, 0)
	for _, c := range []struct {
		name string
		do   func(w *world)
	}{
		{"ended", func(w *world) { w.deliver(key, run.Terminate{}) }},
		{"unreadable", func(w *world) { w.unread[key] = errors.New("a sector cannot be read") }},
		{"deleted", func(w *world) {
			w.deliver(key, run.Terminate{})
			w.pump()
			w.deliver(key, run.Delete{})
		}},
		{"lost", func(w *world) { w.s.Lose(w.s.Partition(1), store.ErrFenced) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, limits, 1)
			w.waitsForPlace(key)
			c.do(w)
			w.pump()
			w.s.Admitted(w.now, key, run.Admitted{Handle: 1, Handler: "charge", Place: "a place"})
			w.pump()
			if len(w.returned) != 1 || len(w.starts) != 0 {
				t.Errorf("%d places are returned, %d attempts start", len(w.returned), len(w.starts))
			}
		})
	}
}

// TestLostPartitionWithdraws withdraws the requests of runs in memory.
func TestLostPartitionWithdraws(t *testing.T) {
	w := newWorld(t, limits, 1)
	key := keyIn(1, 0)
	w.waitsForPlace(key)
	w.deliver(key, run.Signal{Name: "x"})
	w.pump()
	if from, _ := w.s.Source(key, w.now); from != SourceQueue || !w.Asks(key) {
		t.Fatalf("source %d, asks %v", from, w.Asks(key))
	}
	w.s.Lose(w.s.Partition(1), store.ErrFenced)
	if w.Asks(key) {
		t.Error("it still waits")
	}
}
