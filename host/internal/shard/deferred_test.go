package shard

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// deferred fails a run that has sent a signal, and delivers the answer to it, followed by another command.
func (w *world) deferred(key store.RunKey) {
	w.t.Helper()
	w.start(key)
	w.pump()
	l := w.ready(key)
	w.call(l, store.Entry{Kind: store.KindSignalSend, Name: "s", Handle: 1, Target: keyIn(2, 0).ID, Options: []byte("go")})
	w.guest(l, run.GuestEnds{Lease: l, End: run.End{Entry: &store.Entry{Kind: store.KindFailed, Data: []byte(`{}`)}}})
	w.pump()
	w.submit(1, store.CommandReply, key, run.Message{Handle: 1})
	w.signalCommand(2, key)
	w.pump()
	if st := w.state(key); st.Status != store.Failed {
		w.t.Fatalf("the run is %s", st.Status)
	}
	if b := &w.s.Partition(1).inbox; !b.HasDeferred() || b.Waiting() != 0 || w.inboxOf(1) != 1 {
		w.t.Fatalf("the answer is deferred: %v, %d commands wait, %d are durable", b.HasDeferred(), b.Waiting(), w.inboxOf(1))
	}
	w.later(time.Hour)
	if len(w.s.Partition(1).residents) != 0 || w.inboxOf(1) != 1 {
		w.t.Fatal("a failed run is kept in memory for a deferred command, or that is gone")
	}
}

// sent returns how often a run received the outcome of its signal.
func (w *world) sent(key store.RunKey) (n int) {
	w.t.Helper()
	for e, err := range w.store.Load(context.Background(), key, 0, 0) {
		if err != nil {
			w.t.Fatal(err)
		}
		if e.Kind == store.KindSignalSent {
			n++
		}
	}
	return n
}

// An answer that arrives after its run has failed stays in the inbox without blocking other commands, and is taken
// after a retry.
func TestDeferredCommandIsTakenAfterARetry(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.deferred(a)
	look := w.deliver(a, run.Look{Func: func(*run.Run) error { return nil }}) // it is still failed
	w.pump()
	w.want(look, nil)
	if !w.s.Partition(1).inbox.HasDeferred() || w.sent(a) != 0 {
		t.Error("the answer is taken by a failed run")
	}
	r := w.deliver(a, run.Retry{})
	w.pump()
	w.want(r, nil)
	if b := &w.s.Partition(1).inbox; b.HasDeferred() || b.Waiting() != 0 || w.inboxOf(1) != 0 || w.sent(a) != 1 {
		t.Errorf("the answer is deferred: %v, %d commands wait, %d are durable, %d are taken", b.HasDeferred(), b.Waiting(),
			w.inboxOf(1), w.sent(a))
	}
}

// If the host is lost, the next host reads the deferred answer again.
func TestDeferredCommandOutlivesThePartition(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.deferred(a)
	w.acquire(1)
	w.s.Kicked(1)
	w.pump()
	if !w.s.Partition(1).inbox.HasDeferred() || w.inboxOf(1) != 1 {
		t.Error("the answer is not deferred again")
	}
	w.deliver(a, run.Retry{})
	w.pump()
	if w.inboxOf(1) != 0 || w.sent(a) != 1 {
		t.Errorf("%d commands are durable, %d are taken", w.inboxOf(1), w.sent(a))
	}
}

// If the run is deleted instead, the answer is discarded.
func TestDeferredCommandIsDiscardedWithItsRun(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.deferred(a)
	r := w.deliver(a, run.Delete{})
	w.pump()
	w.want(r, nil)
	if answers := w.serveRefusals(nil); len(answers) != 0 {
		t.Errorf("answers %v", answers)
	}
	if b := &w.s.Partition(1).inbox; b.HasDeferred() || b.Waiting() != 0 || w.inboxOf(1) != 0 {
		t.Errorf("the answer is deferred: %v, %d commands wait, %d are durable", b.HasDeferred(), b.Waiting(), w.inboxOf(1))
	}
}

// TestDamagedCommandIsPassedOver puts a damaged command before another one for the same run.
func TestDamagedCommandIsPassedOver(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.waiter(a)
	w.submit(1, 0, a, run.Message{})
	w.signalCommand(2, a)
	w.pump()
	if got := fmt.Sprint(w.names(a)); got != "[s2]" || len(w.reported(ReportDamaged)) != 1 {
		t.Errorf("a has %s, %d reports", got, len(w.reported(ReportDamaged)))
	}
	if n := w.inboxOf(1); n != 1 {
		t.Errorf("%d commands are in the inbox, the damaged one is to stay", n)
	}
}
