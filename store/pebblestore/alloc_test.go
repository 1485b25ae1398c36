package pebblestore

import (
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// maxCommitAllocs bounds the heap allocations of a commit with one entry: keys, the cached record, and the goroutine
// of the commit. Pebble's own batches come from a pool.
const maxCommitAllocs = 27

// TestCommitAllocates counts the heap allocations of a wake's commit.
func TestCommitAllocates(t *testing.T) {
	s, err := Open("db", Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	st := store.RunState{Run: store.RunKey{ID: "run"}, Workflow: "w", Status: store.Sleeping, WakeUnixMs: 1000}
	p, err := s.Acquire(context.Background(), st.Run.Partition(), "test", 0)
	if err != nil {
		t.Fatal(err)
	}
	n := store.Seq(0)
	commit := func() {
		st.WakeUnixMs++
		st.Length = n + 1
		err := p.Commit(context.Background(), []store.RunCommit{{Run: st.Run, Create: n == 0, Expect: n, State: st,
			Append: []store.Entry{{Seq: n, Kind: store.KindTimer, Handle: 1}}}})
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	commit()
	if got := testing.AllocsPerRun(200, commit); got > maxCommitAllocs {
		t.Fatalf("%v allocations, want at most %d", got, maxCommitAllocs)
	} else {
		t.Log(got)
	}
}
