package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// outcome records the results of an owner's commits.
type outcome struct {
	mu      sync.Mutex
	durable []store.RunKey
	fenced  []store.RunKey
	err     error
}

// testOwners has two owners in one process take a partition from each other, 200 times, while both commit: a commit
// that returned nil is there, a fenced one is not, and the new owner never sees a later commit of the previous one.
func testOwners(t *testing.T, e *env) {
	ctx := context.Background()
	const p = 11
	var out outcome
	var wg sync.WaitGroup
	shared := in(0, p, 0)
	e.ok(e.s.Commit(ctx, []store.Group{e.group(p, create(shared, 0))}))
	for turn := range 200 {
		part, err := e.s.Acquire(ctx, p, fmt.Sprint("owner ", turn%2), 0)
		e.ok(err)
		begun := make(chan struct{})
		wg.Go(func() { own(ctx, e.s, part, shared, turn, &out, begun) })
		<-begun
	}
	last, err := e.s.Acquire(ctx, p, "last", 0)
	e.ok(err)
	wg.Wait()
	e.ok(out.err)
	e.ok(last.Renew(ctx))
	for range 2 {
		for _, run := range out.durable {
			if !e.there(run) {
				t.Fatalf("%+v was acknowledged and is gone", run)
			}
		}
		for _, run := range out.fenced {
			if e.there(run) {
				t.Fatalf("%+v was refused and is there", run)
			}
		}
		if n := len(e.load(shared.ID, 0, 0)); n != len(out.durable) {
			t.Fatalf("%d entries of %d commits", n, len(out.durable))
		}
		e.reopen()
	}
	if len(out.durable) < 200 || len(out.fenced) < 200 {
		t.Fatalf("%d commits, %d refused", len(out.durable), len(out.fenced))
	}
}

// own commits new runs, and with each an entry of a run that all owners share, until it is fenced.
func own(ctx context.Context, s store.Store, part store.Partition, shared store.RunKey, turn int, out *outcome,
	begun chan<- struct{}) {
	st, err := s.State(ctx, shared)
	for i, n := 0, 0; err == nil; i++ {
		run := store.RunKey{ID: fmt.Sprintf("o%d.%d", turn, i)}
		if run.Partition() != part.ID() {
			continue
		}
		next := store.RunCommit{Run: shared, Expect: st.Length, Append: entries(st.Length, 1), State: st}
		err = s.Commit(ctx, []store.Group{{Partition: part, Runs: []store.RunCommit{create(run, 1), next}}})
		out.mu.Lock()
		if err == nil {
			out.durable = append(out.durable, run)
		} else if errors.Is(err, store.ErrFenced) {
			out.fenced = append(out.fenced, run)
		}
		out.mu.Unlock()
		st.Length++
		n++
		if n == 1 && err == nil {
			close(begun)
		}
	}
	if !errors.Is(err, store.ErrFenced) {
		out.mu.Lock()
		out.err = fmt.Errorf("owner %d: %w", turn, err)
		out.mu.Unlock()
		close(begun)
	}
}
