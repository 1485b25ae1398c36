package storetest

import (
	"context"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// testQuotas sets, changes and removes quotas.
func testQuotas(t *testing.T, e *env) {
	ctx := context.Background()
	is := func(want ...store.Quota) {
		t.Helper()
		for range 2 {
			got, err := e.s.Quotas(ctx)
			e.ok(err)
			if !slices.Equal(got, want) {
				t.Fatalf("%+v, want %+v", got, want)
			}
			e.reopen()
		}
	}
	a := store.Quota{Runs: 1, Bytes: 2, Instances: 3, Starts: 4, Requests: 5, Schedules: 6, Wakes: 7, Versions: 8, Written: 9}
	b := store.Quota{Namespace: 300, Runs: 7}
	is()
	for _, q := range []store.Quota{b, a, {Namespace: 2}} {
		e.ok(e.s.SetQuota(ctx, q))
	}
	is(a, b)
	a.Runs, b.Runs = 9, 0
	e.ok(e.s.SetQuota(ctx, a))
	e.ok(e.s.SetQuota(ctx, b))
	is(a)
}

// testUsed begins, ends, grows, deletes and replaces runs of two namespaces, and checks their usage.
func testUsed(t *testing.T, e *env) {
	ctx := context.Background()
	is := func(ns store.NamespaceID, want store.Usage) {
		t.Helper()
		for range 2 {
			got, err := e.s.Used(ctx, ns)
			e.ok(err)
			if got != want {
				t.Fatalf("namespace %d uses %+v, want %+v", ns, got, want)
			}
			e.reopen()
		}
	}
	const unit = 4096
	st := state("a")
	st.StoredBytes = 1
	e.ok(e.commit(st, true, 0, 1))
	other := state("a")
	other.Run.Namespace, other.JournalBytes = 1, 3*unit // as older releases have written it
	e.ok(e.commit(other, true, 0, 1))
	is(0, store.Usage{Runs: 1, Bytes: unit})
	is(1, store.Usage{Runs: 1, Bytes: 3 * unit})
	is(2, store.Usage{})
	st.StoredBytes, st.Status = unit, store.Sleeping
	e.ok(e.commit(st, false, 1, 1))
	is(0, store.Usage{Runs: 1, Bytes: unit})
	st.StoredBytes = unit + 1
	e.ok(e.commit(st, false, 2, 1))
	is(0, store.Usage{Runs: 1, Bytes: 2 * unit})
	st.Status = store.Completed
	e.ok(e.commit(st, false, 3, 1))
	is(0, store.Usage{Bytes: 2 * unit})
	st.Deleted = true
	e.ok(e.partition(st.Run.Partition()).Commit(ctx, []store.RunCommit{{Run: st.Run, State: st, Delete: true}}))
	is(0, store.Usage{})
	is(1, store.Usage{Runs: 1, Bytes: 3 * unit})
}
