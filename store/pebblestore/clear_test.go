package pebblestore

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// TestClear deletes runs: those of some lines without deleting a range, and those of more by ranges, which do not stay in memory.
func TestClear(t *testing.T) {
	s, err := Open("db", Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }() // the test has ended
	parts := map[store.PartitionID]store.Partition{}
	keys := func() (n int) {
		t.Helper()
		err := s.scan([]byte{0}, []byte{0xff, 0xff, 0xff, 0xff, 0xff}, func(k, _ []byte) (bool, error) {
			if len(k) > 6 && (k[6] == store.TableJournal || k[6] == store.TableLog || k[6] == store.TableOutput) {
				n++
			}
			return true, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, c := range []struct {
		lines, runs int
		ranges      int64 // deleted, and not on their way to a table
		flushes     int64
	}{{mostCleared, 300, 0, 0}, {mostCleared + 1, mostRanges - 1, mostRanges - 1, 0}, {mostCleared + 1, 3, 2, 1}} {
		before := s.db.Metrics().Flush.Count
		for i := range c.runs {
			run := store.RunKey{ID: fmt.Sprint("run ", c.lines, i)}
			p := parts[run.Partition()]
			if p == nil {
				p = acquire(t, s, run.Partition())
				parts[run.Partition()] = p
			}
			created := store.RunCommit{Run: run, Create: true, State: store.RunState{Run: run, Workflow: "w", Status: store.Completed,
				WakeUnixMs: store.NoWake, Length: 1, LogRecords: uint64(c.lines)}, Append: []store.Entry{{Kind: store.KindStarted}},
				Logs: make([]store.LogLine, c.lines)}
			for i := range created.Logs {
				created.Logs[i].Index = uint64(i)
			}
			deleted := store.RunCommit{Run: run, Delete: true, Expect: 1}
			for _, commit := range []store.RunCommit{created, deleted} {
				if err := p.Commit(t.Context(), []store.RunCommit{commit}); err != nil {
					t.Fatal(err)
				}
			}
		}
		flushed := func() int64 { return s.db.Metrics().Flush.Count - before }
		for flushed() < c.flushes { // a commit does not wait for it
			runtime.Gosched()
		}
		if n, flushes := s.ranges.Load(), flushed(); keys() > 0 || n != c.ranges || flushes != c.flushes {
			t.Errorf("%d runs of %d lines: %d keys are left, %d ranges are in memory, %d flushes; want 0, %d, %d", c.runs, c.lines, keys(),
				n, flushes, c.ranges, c.flushes)
		}
	}
}
