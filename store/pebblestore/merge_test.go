package pebblestore

import (
	"context"
	"fmt"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// TestAppendsMerge combines the parts of a chunk, wherever they are: in memory, in tables, or in compacted tables.
func TestAppendsMerge(t *testing.T) {
	dir := t.TempDir()
	run := store.RunKey{ID: "r"}
	var s *Store
	var p store.Partition
	reopen := func() {
		var err error
		s, err = Open(dir, Options{})
		if err == nil {
			p, err = s.Acquire(t.Context(), run.Partition(), "me", 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	reopen()
	defer func() { _ = s.Close() }()
	const entries = 300 // several chunks
	n := 0
	for n < entries {
		for range 1 + n%3 { // up to three entries in a commit
			if err := appendTo(t.Context(), p, run, n, 1+n%3); err != nil {
				t.Fatal(err)
			}
			n += 1 + n%3
		}
		switch n % 5 {
		case 0:
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
		case 1:
			if err := s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
				t.Fatal(err)
			}
		case 2:
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			reopen()
		}
		s.cache.put(run, nil) // the cache hides what the database has
		_, got, err := s.Run(t.Context(), run)
		if err != nil || len(got) != n {
			t.Fatalf("%d entries, want %d: %v", len(got), n, err)
		}
		for i := range got {
			if want := fmt.Sprint("entry ", i); got[i].Name != want {
				t.Fatalf("entry %d is %q", i, got[i].Name)
			}
		}
	}
}

func appendTo(ctx context.Context, p store.Partition, run store.RunKey, from, n int) error {
	c := store.RunCommit{Run: run, Create: from == 0, Expect: store.Seq(from), State: store.RunState{Run: run, Workflow: "w",
		Status: store.Sleeping, WakeUnixMs: int64(from), Length: store.Seq(from + n)}}
	for i := from; i < from+n; i++ {
		c.Append = append(c.Append, store.Entry{Seq: store.Seq(i), Kind: store.KindSleep, Name: fmt.Sprint("entry ", i),
			Data: make([]byte, 80)})
	}
	return p.Commit(ctx, []store.RunCommit{c})
}
