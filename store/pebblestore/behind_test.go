package pebblestore

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/wfhost/wfhost/store"
)

// heldTables is a file system on which tables cannot be created until goes is closed.
type heldTables struct {
	vfs.FS
	goes chan struct{}
}

func (h heldTables) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") {
		<-h.goes
	}
	return h.FS.Create(name, c)
}

// TestBehind fills memtables while no table can be written: the store is behind, and commits still succeed for a
// while.
func TestBehind(t *testing.T) {
	held := heldTables{vfs.NewMem(), make(chan struct{})}
	s, err := Open("db", Options{FS: held, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	w := newStepper(t, s)
	write := func(bytes uint64) {
		t.Helper()
		for from := s.Usage().LogBytes; s.Usage().LogBytes < from+bytes; {
			if err := w.commit(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(memTableBytes / 8)
	if s.Behind() {
		t.Error("behind with nothing to do")
	}
	write(memTableBytes)
	if !s.Behind() {
		t.Error("not behind while a table is made")
	}
	write(memTableBytes) // as much as all writers may write before they know
	close(held.goes)
	for s.Behind() {
		runtime.Gosched()
	}
	s.sorted.Store(true) // simulate many layers, which would take a while to make
	s.unsorted.Store(manyUnsorted)
	if !s.Behind() {
		t.Error("not behind with many tables to sort")
	}
	s.sorted.Store(false)
	within(t, "looking again", func() {
		for s.Behind() {
			runtime.Gosched()
		}
	})
}

// manifests is a disk on which, while held is set, each fsync of a MANIFEST blocks until goes is closed, and then
// fails.
type manifests struct {
	held    atomic.Bool
	reached chan struct{} // has one for each fsync that waits
	goes    chan struct{}
}

func newManifests() *manifests {
	return &manifests{reached: make(chan struct{}, 9), goes: make(chan struct{})}
}

func (m *manifests) fs() vfs.FS {
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind != errorfs.OpFileSync || !strings.Contains(op.Path, "MANIFEST") || !m.held.Load() {
			return nil
		}
		m.reached <- struct{}{}
		<-m.goes
		return errorfs.ErrInjected
	}))
}

// within fails the test if f does not return within a generous time.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatal(what + " does not return")
	}
}

// TestBehindDoesNotWait has the fsync of a MANIFEST block and then fail, after which Pebble keeps its lock forever.
// In the meantime Behind still answers; afterwards no caller waits, and the store can be closed.
func TestBehindDoesNotWait(t *testing.T) {
	disk := newManifests()
	s, err := Open("db", Options{FS: disk.fs()})
	if err != nil {
		t.Fatal(err)
	}
	run := store.RunKey{ID: "r"}
	if err := appendTo(t.Context(), acquire(t, s, run.Partition()), run, 0, 3); err != nil {
		t.Fatal(err)
	}
	disk.held.Store(true)
	if _, err := s.db.AsyncFlush(); err != nil {
		t.Fatal(err)
	}
	<-disk.reached
	if !s.Behind() {
		t.Error("not behind while a table is made")
	}
	s.flushes.Add(-1) // as if a compaction wrote the MANIFEST
	within(t, "Behind, while the MANIFEST is written,", func() { _ = s.Behind() })
	s.flushes.Add(1)
	close(disk.goes)
	<-s.Failed()
	within(t, "Behind of a failed store", func() {
		if s.Behind() {
			t.Error("a failed store is behind, and nobody will ever catch up")
		}
	})
	if _, err := s.begin(); err != nil { // simulate a caller that waits for Pebble forever
		t.Fatal(err)
	}
	within(t, "Close", func() {
		if err := s.Close(); !errors.Is(err, store.ErrFailed) {
			t.Error(err)
		}
	})
}
