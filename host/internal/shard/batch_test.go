package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

func TestGroupCommitGathers(t *testing.T) {
	w := newWorld(t, limits, 1, 2)
	a, b, c := keyIn(1, 0), keyIn(1, 1), keyIn(2, 0)
	for _, k := range []store.RunKey{a, b, c} {
		w.waiter(k)
	}
	first := w.deliver(a, run.Signal{Name: "x"})
	batch := w.begin()
	var others []*reply
	for _, k := range []store.RunKey{a, b, c} {
		others = append(others, w.deliver(k, run.Signal{Name: "y"}), w.deliver(k, run.Signal{Name: "z"}))
	}
	if w.begin() != nil {
		t.Fatal("two commits are on their way")
	}
	w.unanswered(first)
	w.end(batch, nil)
	w.want(first, nil)
	for _, r := range others {
		w.unanswered(r)
	}
	batch = w.begin()
	if batch.Len() != 3 || len(batch.Groups) != 2 {
		t.Errorf("%d runs in %d groups, want 3 in 2", batch.Len(), len(batch.Groups))
	}
	w.end(batch, nil)
	for _, r := range others {
		w.want(r, nil)
	}
}

func TestBatchIsBounded(t *testing.T) {
	w := newWorld(t, limits, 1)
	a, b := keyIn(1, 0), keyIn(1, 1)
	w.waiter(a)
	w.waiter(b)
	for i := range 5 {
		w.deliver(a, run.Signal{Name: "x", Data: make([]byte, 1<<20), IdempotencyKey: fmt.Sprint(i)})
	}
	r := w.deliver(b, run.Signal{Name: "x"})
	batch := w.begin()
	if batch.Len() != 1 {
		t.Errorf("%d runs, want 1: it writes 5 MiB", batch.Len())
	}
	w.end(batch, nil)
	w.unanswered(r)
	w.pump()
	w.want(r, nil)
}

// A run that the store refuses is left out, and the others are committed.
func TestRefusedRunIsLeftOut(t *testing.T) {
	w := newWorld(t, limits, 1, 2)
	a, b, c := keyIn(1, 0), keyIn(1, 1), keyIn(2, 0)
	for _, k := range []store.RunKey{a, b, c} {
		w.waiter(k)
	}
	bad, good, far := w.deliver(a, run.Signal{Name: "go"}), w.deliver(b, run.Signal{Name: "x"}), w.deliver(c, run.Signal{Name: "x"})
	batch := w.begin()
	w.end(batch, &store.RefusedError{Group: 0, Run: 0, Err: store.ErrConflict})
	w.want(bad, ErrLost)
	w.want(bad, store.ErrConflict)
	w.unanswered(good)
	if _, halted := w.halts[w.lastLease(a)]; !halted {
		t.Error("the guest that was asked for is not halted")
	}
	if len(w.reported(ReportRefused)) != 1 {
		t.Errorf("reports %v", w.reports)
	}
	w.pump()
	w.want(good, nil)
	w.want(far, nil)
	again := w.deliver(a, run.Signal{Name: "x"}) // it is read again
	w.pump()
	w.want(again, nil)
	if n := w.state(a).Length; n != 4 {
		t.Errorf("%d entries, want 4: one signal was refused", n)
	}
}

// The only run of a commit is refused: nothing is left to commit.
func TestOnlyRunIsRefused(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.waiter(a)
	r := w.deliver(a, run.Signal{Name: "x"})
	w.end(w.begin(), &store.RefusedError{Group: 0, Run: 0, Err: store.ErrTooLarge})
	w.want(r, store.ErrTooLarge)
	if w.begin() != nil {
		t.Error("something is committed")
	}
}

func TestFencedPartitionIsLost(t *testing.T) {
	w := newWorld(t, limits, 1, 2)
	a, b := keyIn(1, 0), keyIn(2, 0)
	w.waiter(a)
	w.waiter(b)
	lost, kept := w.deliver(a, run.Signal{Name: "x"}), w.deliver(b, run.Signal{Name: "x"})
	if _, err := w.store.Acquire(context.Background(), 1, "there", 0); err != nil {
		t.Fatal(err)
	}
	w.pump()
	w.want(lost, ErrLost)
	w.want(lost, store.ErrFenced)
	w.want(kept, nil)
	w.want(w.deliver(a, run.Signal{Name: "x"}), ErrNotOwned)
	if len(w.acquires) != 0 {
		t.Error("a partition that another host has is acquired again")
	}
	if len(w.s.Partitions()) != 1 {
		t.Errorf("%d partitions are left", len(w.s.Partitions()))
	}
}

// The outcome of a commit is unknown: its partitions are lost, and acquired again.
func TestUnknownOutcome(t *testing.T) {
	w := newWorld(t, limits, 1, 2, 3)
	a, b, c := keyIn(1, 0), keyIn(2, 0), keyIn(3, 0)
	for _, k := range []store.RunKey{a, b, c} {
		w.waiter(k)
	}
	r1, r2 := w.deliver(a, run.Signal{Name: "x"}), w.deliver(b, run.Signal{Name: "x"})
	batch := w.begin()
	r3 := w.deliver(c, run.Signal{Name: "x"})
	if err := w.store.Commit(t.Context(), batch.Groups); err != nil { // it is durable, but nobody knows
		t.Fatal(err)
	}
	w.end(batch, store.ErrUnknown)
	w.want(r1, ErrLost)
	w.want(r2, store.ErrUnknown)
	if len(w.acquires) != 2 {
		t.Fatalf("%d partitions are acquired again, want 2", len(w.acquires))
	}
	w.pump()
	w.want(r3, nil)
	w.want(w.deliver(a, run.Signal{Name: "x"}), ErrNotOwned)
	for _, p := range w.acquires {
		w.acquire(p.ID)
	}
	r := w.deliver(a, run.Signal{Name: "x"})
	w.pump()
	w.want(r, nil)
	if n := w.state(a).Length; n != 5 {
		t.Errorf("%d entries, want 5: the signal before was durable", n)
	}
	if len(w.reported(ReportAcquired)) != 5 || len(w.reported(ReportLost)) != 2 {
		t.Errorf("reports %v", w.reports)
	}
}

func TestAnswersAndAttemptsComeAfterTheCommit(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	r := w.start(a)
	w.serveLoads()
	l := w.ready(a)
	w.call(l, stepCall(1))
	w.waits(l, 1)
	w.unanswered(r)
	if len(w.starts) != 0 {
		t.Fatal("an attempt starts before what led to it is durable")
	}
	w.end(w.begin(), nil)
	w.want(r, nil)
	if !r.answer.Created || r.answer.State.Status != store.Running || len(w.starts) != 1 {
		t.Errorf("answer %+v, %d attempts", r.answer, len(w.starts))
	}
	if !w.s.Running(a) {
		t.Error("the run does not count as running")
	}
}

// An attempt that was given up before it could start does not start.
func TestAttemptGivenUpBeforeItStarts(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.start(a)
	w.serveLoads()
	l := w.ready(a)
	w.call(l, stepCall(1))
	w.waits(l, 1)
	batch := w.begin()
	w.deliver(a, run.Terminate{})
	w.end(batch, nil)
	w.pump()
	if len(w.starts) != 0 || len(w.drops) != 1 {
		t.Errorf("%d attempts start, %d are dropped", len(w.starts), len(w.drops))
	}
}

// The cause of an attempt becomes durable while the guest computes again: the attempt starts when the guest yields.
func TestAttemptStartsWhenTheGuestYields(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.start(a)
	w.pump()
	l := w.ready(a)
	w.call(l, stepCall(1))
	w.call(l, waitCall(2, "go"))
	w.waits(l, 2)
	batch := w.begin()
	w.deliver(a, run.Signal{Name: "go"})
	w.ready(a)
	if got := w.orders[l]; got[len(got)-1] != run.OrderGo {
		t.Fatalf("orders %v", got)
	}
	w.end(batch, nil)
	if len(w.starts) != 0 || len(w.yields) != 1 {
		t.Fatalf("%d attempts, %d guests are asked to yield", len(w.starts), len(w.yields))
	}
	w.guest(l, run.GuestYields{Lease: l})
	w.pump()
	w.guest(l, run.GuestYields{Lease: l}) // later entries were durable, too, and the guest was asked again
	if len(w.starts) != 1 {
		t.Errorf("%d attempts start", len(w.starts))
	}
}

// A run of another workflow is in the next batch, however many runs of one workflow came before it. Runs that write
// much get only part of a batch.
func TestWorkflowsTakeTurns(t *testing.T) {
	w := newWorld(t, limits, 1)
	var much []store.RunKey
	for i := range 20 {
		key := keyIn(1, i)
		w.waiter(key)
		much = append(much, key)
	}
	other := keyIn(1, 20)
	n := newRun(other)
	n.Workflow = "another"
	w.deliver(other, run.Start{New: n})
	w.pump()
	l := w.ready(other)
	w.call(l, waitCall(1, "go"))
	w.waits(l, 1)
	w.pump()
	for _, key := range much {
		w.deliver(key, run.Signal{Name: "go", Data: make([]byte, maxBatchBytes/4)})
	}
	w.deliver(other, run.Signal{Name: "go"})
	b := w.begin()
	var got []string
	for _, g := range b.Groups {
		for i := range g.Runs {
			got = append(got, g.Runs[i].State.Workflow)
		}
	}
	if len(got) > 6 || !slices.Contains(got, "another") {
		t.Errorf("the batch has runs of %v", got)
	}
	w.end(b, nil)
	if commits := w.pump(); commits < 3 {
		t.Errorf("%d more batches", commits)
	}
	for _, key := range much {
		if w.state(key).Length < 4 {
			t.Errorf("run %s has %d entries", key.ID, w.state(key).Length)
		}
	}
}

// A guest computes on, and yields for a commit while the previous one is in flight: the next commit is made when that
// one is durable.
func TestCommitsOfAGuestThatComputes(t *testing.T) {
	several := limits
	several.Commits = 4
	w := newWorld(t, several, 1)
	a := keyIn(1, 0)
	w.start(a)
	w.pump()
	l := w.ready(a)
	yields := func() {
		w.call(l, store.Entry{Kind: store.KindEmit, Name: "x"})
		w.guest(l, run.GuestYields{Lease: l})
	}
	yields()
	first := w.begin()
	yields()
	if w.begin() != nil {
		t.Fatal("two commits of a run are on their way")
	}
	w.end(first, nil)
	if n := w.pump(); n != 1 {
		t.Errorf("%d commits of what it did meanwhile", n)
	}
	r := w.deliver(a, run.Signal{Name: "x"})
	yields()
	w.pump()
	w.want(r, nil)
	if n := w.state(a).Length; int(n) != len(l.Entries()) {
		t.Errorf("%d of %d entries are durable", n, len(l.Entries()))
	}
}

// The weight of a batch includes log lines and states as well as entries.
func TestWeight(t *testing.T) {
	b := &Batch{}
	for _, c := range []struct {
		commit store.RunCommit
		least  int
	}{
		{store.RunCommit{}, commitBytes},
		{store.RunCommit{Logs: []store.LogLine{{Text: strings.Repeat("x", 5000)}}}, 5000},
		{store.RunCommit{Output: []store.Chunk{{Data: make([]byte, 5000)}}}, 5000},
		{store.RunCommit{Append: []store.Entry{{Kind: store.KindEmit, Data: make([]byte, 5000)}}}, 5000},
		{store.RunCommit{Outbox: []store.Command{{Data: make([]byte, 5000)}}}, 5000},
	} {
		if n := b.add(&resident{}, &c.commit); n < c.least || n > c.least+1000 {
			t.Errorf("%+v weighs %d", c.commit, n)
		}
	}
}

// A second signal with the same key changes nothing, and is not answered before the first one is durable.
func TestDuplicateSignalWaitsForTheFirst(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.waiter(a)
	first := w.deliver(a, run.Signal{Name: "x", IdempotencyKey: "k"})
	batch := w.begin()
	second := w.deliver(a, run.Signal{Name: "x", IdempotencyKey: "k"})
	if w.begin() != nil {
		t.Fatal("two commits are on their way")
	}
	w.unanswered(second)
	w.end(batch, nil)
	w.want(first, nil)
	w.pump()
	w.want(second, nil)
	if second.answer.Changed {
		t.Error("the second signal has changed something")
	}
	third := w.deliver(a, run.Signal{Name: "x", IdempotencyKey: "k"})
	if n := w.pump(); n != 0 {
		t.Errorf("%d commits for a signal that is known", n)
	}
	w.want(third, nil)
}

// Each of two starts with the conflict policy terminate ends the run that it finds.
func TestReplaceTwice(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.waiter(a)
	var rs []*reply
	for i := range 2 {
		n := newRun(a)
		n.Conflict, n.Incarnation = run.ConflictTerminate, store.Incarnation{2 + byte(i)}
		rs = append(rs, w.deliver(a, run.Start{New: n}))
	}
	w.pump()
	w.complete(w.ready(a))
	w.pump()
	for i, r := range rs {
		w.want(r, nil)
		if r.answer.State.Incarnation != (store.Incarnation{2 + byte(i)}) {
			t.Errorf("start %d is answered with incarnation %s", i, r.answer.State.Incarnation)
		}
	}
}

func TestDelete(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.waiter(a)
	end, gone := w.deliver(a, run.Terminate{}), w.deliver(a, run.Delete{})
	w.pump()
	w.want(end, nil)
	w.want(gone, nil)
	if !w.state(a).Deleted {
		t.Error("the run is there")
	}
	late := w.deliver(a, run.Signal{Name: "x"})
	w.pump()
	w.want(late, store.ErrNotFound)
}

// A commit becomes durable although its partition was lost in the meantime, or its outcome is unknown: commands that
// it sent to other partitions are in their inboxes.
func TestCommandsOfALostPartitionAreKicked(t *testing.T) {
	for _, outcome := range []error{nil, store.ErrUnknown} {
		w := newWorld(t, limits, 1, 2)
		a, b := keyIn(1, 0), keyIn(2, 0)
		w.start(a)
		w.pump()
		l := w.ready(a)
		w.call(l, store.Entry{Kind: store.KindSignalSend, Name: "s", Handle: 1, Target: b.ID, Options: []byte("go")})
		w.waits(l, 1)
		batch := w.begin()
		if outcome == nil {
			w.s.Lose(w.s.Partition(1), errors.New("released"))
		} else if err := w.store.Commit(t.Context(), batch.Groups); err != nil {
			t.Fatal(err)
		}
		w.end(batch, outcome)
		if len(w.kicks) == 0 || w.kicks[0] != 2 {
			t.Errorf("outcome %v: the inboxes of %v are looked at, want 2", outcome, w.kicks)
		}
	}
}

// A reply shows the run as of the commit that made the event durable, not of a later one in preparation.
func TestAnswerShowsNothingThatIsNotDurable(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	r := w.start(a)
	w.serveLoads()
	w.whilesEnd() // the start has lingered long enough
	batch := w.begin()
	l := w.ready(a)
	w.call(l, store.Entry{Kind: store.KindEmit, Name: "x"})
	pause := w.deliver(a, run.Pause{})
	w.guest(l, run.GuestYields{Lease: l})
	w.end(batch, nil)
	w.want(r, nil)
	if r.answer.State.Status == store.Paused || r.answer.State.Length != 1 {
		t.Errorf("the start is answered with %s and %d entries", r.answer.State.Status, r.answer.State.Length)
	}
	w.unanswered(pause)
	w.pump()
	w.want(pause, nil)
}

// A start replaces another run, which ends first. Later events in the same commit concern the old run.
func TestReplace(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.waiter(a)
	n := newRun(a)
	n.Conflict, n.Incarnation = run.ConflictTerminate, store.Incarnation{2}
	r := w.deliver(a, run.Start{New: n})
	look := w.deliver(a, run.Look{Func: func(*run.Run) error { return nil }})
	w.end(w.begin(), nil)
	w.unanswered(r)
	w.want(look, nil)
	if look.answer.State.Status != store.Terminated {
		t.Errorf("the old run is %s", look.answer.State.Status)
	}
	l := w.ready(a)
	w.complete(l)
	w.pump()
	w.want(r, nil)
	if !r.answer.Created || w.state(a).Incarnation != n.Incarnation {
		t.Errorf("answer %+v", r.answer)
	}
}

// A run whose commit is refused because data could not be read is woken again.
func TestRefusedRunKeepsItsWake(t *testing.T) {
	w := newWorld(t, limits, 1)
	a := keyIn(1, 0)
	w.sleeper(a, 10*time.Second)
	r := w.deliver(a, run.Signal{Name: "x"})
	w.end(w.begin(), &store.RefusedError{Group: 0, Run: 0, Err: errors.New("a sector cannot be read")})
	w.want(r, ErrLost)
	w.later(20 * time.Second)
	w.complete(w.ready(a))
	w.pump()
	if st := w.state(a); st.Status != store.Completed {
		t.Errorf("the run is %s", st.Status)
	}
}
