package shard

import (
	"errors"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// TestAsksOfEvictedRuns ends an evicted run whose step waits for a place: the step no longer waits.
func TestAsksOfEvictedRuns(t *testing.T) {
	w := newWorld(t, limits, 1)
	key := keyIn(1, 0)
	w.waitsForPlace(key)
	if rs := w.s.Partition(1).residents[key]; rs != nil {
		t.Fatal("still in memory")
	}
	w.deliver(key, run.Terminate{})
	w.pump()
	if w.Asks(key) {
		t.Error("the run has ended, and its step still waits for a place")
	}
}

// TestCancelOfAStepOfAnEvictedRun loads such a run by a signal, upon which its workflow cancels the step.
func TestCancelOfAStepOfAnEvictedRun(t *testing.T) {
	w := newWorld(t, limits, 1)
	key := keyIn(1, 0)
	delete(w.handlers, "charge")
	w.start(key)
	w.pump()
	l := w.ready(key)
	w.call(l, store.Entry{Kind: store.KindStep, Name: "pay", Handle: 1, Target: abi.HandlerPrefix + "charge"})
	w.call(l, store.Entry{Kind: store.KindSignalWait, Name: "x", Handle: 2})
	w.waits(l, 2)
	w.pump()
	if w.s.Partition(key.Partition()).residents[key] != nil {
		w.forget(key)
	}
	w.deliver(key, run.Signal{Name: "x"})
	w.pump()
	l = w.ready(key)
	w.call(l, store.Entry{Kind: store.KindWithdraw, Handle: 1})
	w.call(l, store.Entry{Kind: store.KindSignalWait, Name: "y", Handle: 3})
	w.waits(l, 3)
	w.pump()
	if w.Asks(key) {
		t.Error("the step was withdrawn, and still waits for a place")
	}
}

// TestAdmittedWhileUnreadable gives a place to the step of a run that also has a timer, and cannot be read at that
// moment. It is read again soon.
func TestAdmittedWhileUnreadable(t *testing.T) {
	w := newWorld(t, limits, 1)
	key := keyIn(1, 0)
	delete(w.handlers, "charge")
	w.start(key)
	w.pump()
	l := w.ready(key)
	w.call(l, store.Entry{Kind: store.KindStep, Name: "pay", Handle: 1, Target: abi.HandlerPrefix + "charge"})
	w.call(l, store.Entry{Kind: store.KindSleep, Name: "timeout", Handle: 2, DueUnixMs: w.now + 3600_000, HasDue: true})
	w.waits(l, 1, 2)
	w.pump()
	if w.s.Partition(key.Partition()).residents[key] != nil {
		w.forget(key)
	}
	w.unread[key] = errors.New("a sector cannot be read")
	w.admit(key)
	w.pump()
	delete(w.unread, key)
	w.handlers["charge"] = true
	for range 10 {
		w.now += 1000
		w.s.Tick(w.now)
		w.pump()
	}
	from, at := w.s.Source(key, w.now)
	if len(w.starts) == 0 {
		t.Errorf("10 s later no attempt has begun: source %d in %d s", from, (at-w.now)/1000)
	}
}

// TestPartitionLostDuringACancel loses a partition while a guest cancels a step that waits for a place. The race
// detector reports if the shard reads a run that the guest has.
func TestPartitionLostDuringACancel(t *testing.T) {
	w := newWorld(t, limits, 1)
	key := keyIn(1, 0)
	delete(w.handlers, "charge")
	w.start(key)
	w.pump()
	l := w.ready(key)
	w.call(l, store.Entry{Kind: store.KindStep, Name: "pay", Handle: 1, Target: abi.HandlerPrefix + "charge"})
	w.call(l, store.Entry{Kind: store.KindSignalWait, Name: "x", Handle: 2})
	w.waits(l, 2)
	w.pump()
	w.deliver(key, run.Signal{Name: "x"})
	w.pump()
	l = w.ready(key)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = l.Append(w.now, store.Entry{Kind: store.KindWithdraw, Handle: 1})
	}()
	w.s.Lose(w.s.Partition(1), store.ErrFenced)
	<-done
}
