package pebblestore

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

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

// TestClearWithoutLog deletes ranges on a disk that has no room for another file of the log, which the flush needs: the store fails,
// and the commit that had it flushed, which is durable, returns.
func TestClearWithoutLog(t *testing.T) {
	full := atomic.Bool{}
	around := func(fs vfs.FS) vfs.FS {
		return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			switch op.Kind {
			case errorfs.OpCreate, errorfs.OpReuseForWrite, errorfs.OpRename:
				if full.Load() {
					return errorfs.ErrInjected
				}
			default:
			}
			return nil
		}))
	}
	s, err := Open(t.TempDir(), Options{Around: around})
	if err != nil {
		t.Fatal(err)
	}
	run := store.RunKey{ID: "r"}
	p := acquire(t, s, run.Partition())
	if err := appendTo(t.Context(), p, run, 0, 1); err != nil {
		t.Fatal(err)
	}
	s.ranges.Store(mostRanges)
	full.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	committed := make(chan error, 1)
	go func() { committed <- appendTo(ctx, p, run, 1, 1) }()
	for _, what := range []<-chan struct{}{s.failed, ctx.Done()} {
		select {
		case <-what:
			if ctx.Err() != nil {
				t.Fatal("the store has not failed")
			}
		case err := <-committed:
			if err != nil || s.failure() == nil {
				t.Errorf("the commit: %v, the store: %v", err, s.failure())
			}
			return
		}
	}
	t.Fatal("the commit has not returned")
}
