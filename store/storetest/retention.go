package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// testEnded ends, deletes, replaces and forgets runs: each table has the right runs, in order of time, page by page.
func testEnded(t *testing.T, e *env) {
	ctx := context.Background()
	run := store.RunKey{ID: "r0"}
	p := run.Partition()
	ids := []string{run.ID}
	for i := 1; len(ids) < 4; i++ { // of one partition
		if id := fmt.Sprint("r", i); (store.RunKey{ID: id}).Partition() == p {
			ids = append(ids, id)
		}
	}
	is := func(deleted bool, until int64, want ...store.Position) {
		t.Helper()
		e.ended(p, deleted, until, want)
	}
	states := make([]store.RunState, len(ids))
	at := func(i int) store.Position { return store.Position{UnixMs: states[i].EndedUnixMs, ID: ids[i]} }
	for i, id := range ids {
		st := state(id)
		st.CreatedUnixMs = int64(i)
		e.ok(e.commit(st, true, 0, 1))
		if i == 3 { // it lives on
			continue
		}
		st.Status, st.EndedUnixMs = store.Completed, int64(30-10*i)
		states[i] = st
		e.ok(e.commit(st, false, 1, 0))
		if i < 2 { // else it stays below
			st.Status, st.EndedUnixMs = store.Running, 0 // it is retried
			e.ok(e.commit(st, false, 1, 0))
		}
	}
	is(false, 100, at(2))
	for i := range 2 {
		e.ok(e.commit(states[i], false, 1, 0))
	}
	is(false, 100, at(2), at(1), at(0))
	is(false, 20, at(2), at(1))
	is(false, 9)
	is(false, -1)
	is(true, 100)
	commit := func(c store.RunCommit) {
		t.Helper()
		c.Run = c.State.Run
		e.ok(e.partition(p).Commit(ctx, []store.RunCommit{c}))
	}
	gone := states[1]
	gone.Deleted, gone.UpdatedUnixMs = true, 50
	commit(store.RunCommit{State: gone, Delete: true})
	other := states[0]
	other.Deleted, other.UpdatedUnixMs = true, 40
	commit(store.RunCommit{State: other, Delete: true})
	e.reopen()
	is(false, 100, at(2))
	is(true, 100, store.Position{UnixMs: 40, ID: ids[0]}, store.Position{UnixMs: 50, ID: ids[1]})
	is(true, 40, store.Position{UnixMs: 40, ID: ids[0]})
	fresh := state(ids[0])
	fresh.Length = 1
	commit(store.RunCommit{State: fresh, Create: true, Replace: true, Append: entries(0, 1)})
	is(true, 100, store.Position{UnixMs: 50, ID: ids[1]})
	gone.Deleted = false
	commit(store.RunCommit{State: gone, Delete: true})
	is(true, 100)
	_, err := e.s.State(ctx, gone.Run)
	e.is(err, store.ErrNotFound)
	e.ok(e.commit(state(ids[1]), true, 0, 1)) // its id is free
}

// ended compares a table of ended runs with the expected runs.
func (e *env) ended(p store.PartitionID, deleted bool, until int64, want []store.Position) {
	e.t.Helper()
	q := store.EndedQuery{Partition: p, Deleted: deleted, UntilMs: until, Limit: 1}
	var got []store.Position
	for {
		list, err := e.s.Ended(context.Background(), q)
		e.ok(err)
		if len(list) == 0 {
			break
		}
		got, q.After = append(got, list...), list[0]
	}
	if !slices.Equal(got, want) {
		e.t.Fatalf("deleted %v, until %d: %v, want %v", deleted, until, got, want)
	}
}

// testRetentions sets, changes and removes retentions.
func testRetentions(t *testing.T, e *env) {
	ctx := context.Background()
	is := func(want ...store.Retention) {
		t.Helper()
		for range 2 {
			got, err := e.s.Retentions(ctx)
			e.ok(err)
			if !slices.Equal(got, want) {
				t.Fatalf("%+v, want %+v", got, want)
			}
			e.reopen()
		}
	}
	rest := store.Retention{Keep: 3}
	a := store.Retention{Workflow: "a", CompletedMs: 1, FailedMs: 2, CancelledMs: 3, TerminatedMs: 4, Keep: 5, KeepCompleted: 6,
		KeepFailed: 7, KeepCancelled: 8, KeepTerminated: 9}
	b := store.Retention{Workflow: "b", FailedMs: 7}
	other := store.Retention{Namespace: 1, Workflow: "a", Keep: 1}
	is()
	for _, r := range []store.Retention{b, other, a, rest} {
		e.ok(e.s.SetRetention(ctx, r))
	}
	is(rest, a, b, other)
	b.FailedMs, b.Keep = 0, 9
	e.ok(e.s.SetRetention(ctx, b))
	e.ok(e.s.SetRetention(ctx, store.Retention{}))
	e.ok(e.s.SetRetention(ctx, store.Retention{Workflow: "nothing"}))
	is(a, b, other)
}
