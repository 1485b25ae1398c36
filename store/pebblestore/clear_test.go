package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/wfhost/wfhost/store"
)

// TestClear deletes runs: small ones key by key, larger ones by deleting ranges, which do not stay in memory.
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
		ranges      int64 // deleted ranges that are not being written to a table
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

// TestClearWithoutLog deletes ranges on a disk without space for the new log file that the flush needs. The store
// fails, and the commit that caused the flush returns: it is durable.
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
	select {
	case err := <-committed:
		if err != nil {
			t.Errorf("the commit: %v", err)
		}
	case <-ctx.Done():
		t.Fatal("the commit has not returned")
	}
	select {
	case <-s.failed:
	case <-ctx.Done():
		t.Fatal("the store has not failed")
	}
	if _, err := s.State(ctx, run); err != nil {
		t.Errorf("reads do not go on: %v", err)
	}
}

// TestClearDamaged deletes a run whose output is damaged on disk.
func TestClearDamaged(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	run := store.RunKey{ID: "r"}
	c := store.RunCommit{Run: run, Create: true, State: store.RunState{Run: run, Workflow: "w", Status: store.Completed,
		WakeUnixMs: store.NoWake, Length: 1, Output: 3}, Append: []store.Entry{{Kind: store.KindStarted}}}
	for i := range c.State.Output {
		data := make([]byte, 200<<10)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(data) // which is not compressed
		c.Output = append(c.Output, store.Chunk{Index: i, Topic: "t", Data: data})
	}
	if err := acquire(t, s, run.Partition()).Commit(t.Context(), []store.RunCommit{c}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.db.Flush(), s.Close()); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	damaged := false
	for _, name := range tables {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 500<<10 {
			b[300<<10] ^= 0xff
			damaged = true
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err = Open(dir, Options{NoSync: true})
	if err != nil || !damaged {
		t.Fatal(err, damaged)
	}
	defer func() { _ = s.Close() }() // the test has ended
	if _, err := s.Output(t.Context(), run, 0, 10); err == nil {
		t.Error("the output is not damaged")
	}
	if err := acquire(t, s, run.Partition()).Commit(t.Context(), []store.RunCommit{{Run: run, Delete: true, Expect: 1}}); err != nil {
		t.Errorf("a run whose output is damaged cannot be deleted: %v", err)
	}
}
