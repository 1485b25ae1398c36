package storetest

import (
	"context"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// testImported creates runs with all of their iterations, log and output at once, and versions that no start uses.
func testImported(t *testing.T, e *env) {
	ctx := context.Background()
	st := state("r")
	st.Iteration, st.Length, st.LogRecords, st.Output = 2, 1, 1, 1
	st.Status, st.EndedUnixMs, st.ImportUnixMs, st.Import, st.Aside = store.Completed, 10, 500, "from there", store.AsideCopy
	c := store.RunCommit{Run: st.Run, Create: true, State: st, Append: entries(0, 1), Logs: []store.LogLine{{Text: "line"}},
		Output:  []store.Chunk{{Topic: "t", Data: []byte("chunk")}},
		Earlier: []store.IterationEnd{{Iteration: 0, Append: entries(0, 700)}, {Iteration: 1, Append: entries(1, 1)}}}
	p := e.partition(st.Run.Partition())
	e.is(p.Commit(ctx, []store.RunCommit{c}), store.ErrConflict)
	c.Earlier[1].Append = entries(0, 3)
	e.ok(p.Commit(ctx, []store.RunCommit{c}))
	e.reopen()
	for iteration, want := range []int{700, 3, 1} {
		if got := len(e.load("r", uint32(iteration), 0)); got != want {
			t.Errorf("iteration %d has %d entries, want %d", iteration, got, want)
		}
	}
	got, err := e.s.State(ctx, st.Run)
	e.ok(err)
	if got.Import != "from there" || got.ImportUnixMs != 500 || got.Aside != store.AsideCopy {
		t.Errorf("%+v", got)
	}
	// It is kept from its import on.
	e.ended(st.Run.Partition(), false, 499, nil)
	e.ended(st.Run.Partition(), false, 500, []store.Position{{UnixMs: 500, ID: "r"}})
	st.Length = 1
	refused := e.partition(st.Run.Partition()).Commit(ctx, []store.RunCommit{{Run: st.Run, State: st, Expect: 1,
		Earlier: c.Earlier}})
	if refused == nil {
		t.Error("iterations before are appended to a run that is there")
	}
	st.Deleted = false
	e.ok(e.partition(st.Run.Partition()).Commit(ctx, []store.RunCommit{{Run: st.Run, State: st, Delete: true}}))
	e.ended(st.Run.Partition(), false, 1000, nil)
	testImportedVersions(e)
}

func testImportedVersions(e *env) {
	ctx, m := context.Background(), e.s.Modules()
	old, err := m.Put(ctx, []byte("old"), store.ModuleInfo{})
	e.ok(err)
	d, err := m.Put(ctx, []byte("new"), store.ModuleInfo{})
	e.ok(err)
	add := func(s store.VersionSpec) uint32 {
		e.t.Helper()
		s.Workflow = "w"
		v, err := m.AddVersions(ctx, []store.VersionSpec{s})
		e.ok(err)
		return v[0].Number
	}
	latest := func(want uint32) {
		e.t.Helper()
		if v, err := m.Version(ctx, 0, "w", 0); err != nil || v.Number != want {
			e.t.Errorf("the latest version is %d, %v; want %d", v.Number, err, want)
		}
	}
	numbers := []uint32{add(store.VersionSpec{Module: old, Imported: true}), add(store.VersionSpec{Module: old, Imported: true})}
	_, err = m.Version(ctx, 0, "w", 0)
	e.is(err, store.ErrNotFound)
	numbers = append(numbers, add(store.VersionSpec{Module: old}))
	latest(2)
	numbers = append(numbers, add(store.VersionSpec{Module: d, Imported: true}))
	latest(2)
	numbers = append(numbers, add(store.VersionSpec{Module: d}))
	latest(4)
	for i, want := range []uint32{1, 1, 2, 3, 4} {
		if numbers[i] != want {
			e.t.Errorf("version %d has the number %d, want %d", i, numbers[i], want)
		}
	}
	e.reopen()
	m = e.s.Modules()
	latest(4)
	if v, err := m.Version(ctx, 0, "w", 3); err != nil || !v.Imported || v.Module != d {
		e.t.Errorf("%+v, %v", v, err)
	}
	e.ok(m.DeleteVersion(ctx, 0, "w", 4))
	latest(2)
}
