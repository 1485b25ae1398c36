package pebblestore

import (
	"errors"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/wfhost/wfhost/store"
)

// gate blocks fsyncs of the log while it is closed.
type gate struct {
	mu     sync.Mutex
	opened *sync.Cond
	closed bool
	fs     vfs.FS
}

func newGate() *gate {
	g := &gate{}
	g.opened = sync.NewCond(&g.mu)
	g.fs = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			g.mu.Lock()
			defer g.mu.Unlock()
			for g.closed {
				g.opened.Wait()
			}
		}
		return nil
	}))
	return g
}

func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
	g.opened.Broadcast()
}

// openGate opens a store whose fsyncs pass an open gate.
func openGate(t *testing.T) (*Store, *gate) {
	t.Helper()
	g := newGate()
	s, err := Open("db", Options{FS: g.fs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.set(false)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, g
}

func acquire(t *testing.T, s *Store, p store.PartitionID) store.Partition {
	t.Helper()
	part, err := s.Acquire(t.Context(), p, "test", 0)
	if err != nil {
		t.Fatal(err)
	}
	return part
}

// TestAcquireBlocksNobody has an Acquire wait for the disk. Commits by the previous owner are refused at once, and a
// commit of another partition is appended to the log.
func TestAcquireBlocksNobody(t *testing.T) {
	s, g := openGate(t)
	run, other := store.RunKey{ID: "a"}, store.RunKey{ID: "b"}
	if run.Partition() == other.Partition() {
		t.Fatal("choose other runs")
	}
	old, part := acquire(t, s, run.Partition()), acquire(t, s, other.Partition())
	g.set(true)
	acquired, committed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.Acquire(t.Context(), run.Partition(), "other", 0)
		acquired <- err
	}()
	for old.Renew(t.Context()) == nil { //nolint:revive // until the new epoch is applied
	}
	err := s.Commit(t.Context(), []store.Group{{Partition: part}, {Partition: old}})
	if r := (*store.RefusedError)(nil); !errors.As(err, &r) || r.Group != 1 || !errors.Is(err, store.ErrFenced) {
		t.Fatal(err)
	}
	go func() { committed <- appendTo(t.Context(), part, other, 0, 1) }()
	for {
		if v, err := s.get(store.RunTableKey(other, store.TableState)); err != nil || v != nil {
			break
		}
	}
	select {
	case <-acquired:
		t.Fatal("the fsync has not been waited for")
	case <-committed:
		t.Fatal("the fsync has not been waited for")
	default:
	}
	g.set(false)
	if err := errors.Join(<-acquired, <-committed); err != nil {
		t.Fatal(err)
	}
}
