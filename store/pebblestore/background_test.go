package pebblestore

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/wfhost/wfhost/store"
)

// noTables is a disk that refuses tables while it is full, and counts the attempts.
type noTables struct {
	full  atomic.Bool
	tries atomic.Int64
}

func (n *noTables) over(fs vfs.FS) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") && n.full.Load() {
			n.tries.Add(1)
			return errorfs.ErrInjected
		}
		return nil
	}))
}

// TestOpenWithoutRoom opens a store whose disk has no space for the tables of its log. Opening fails instead of
// retrying forever. The same process can open it when there is space, with all data.
func TestOpenWithoutRoom(t *testing.T) {
	dir, disk := t.TempDir(), &noTables{}
	run := store.RunKey{ID: "r"}
	s, err := Open(dir, Options{Around: disk.over})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(appendTo(t.Context(), acquire(t, s, run.Partition()), run, 0, 3), s.Close()); err != nil {
		t.Fatal(err)
	}
	disk.full.Store(true)
	for range 2 {
		disk.tries.Store(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		opened := make(chan error, 1)
		go func() {
			_, err := Open(dir, Options{Around: disk.over})
			opened <- err
		}()
		select {
		case err := <-opened:
			if !errors.Is(err, errorfs.ErrInjected) || disk.tries.Load() != 1 {
				t.Fatalf("%v, after %d tries", err, disk.tries.Load())
			}
		case <-ctx.Done():
			t.Fatalf("it is still being opened, after %d tries", disk.tries.Load())
		}
		cancel()
	}
	disk.full.Store(false)
	s, err = Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, s, run); got.first != 3 {
		t.Errorf("%+v", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTableFails has the disk refuse a table while the store is open: the store fails, reports that, stops retrying,
// and can still be read and closed.
func TestTableFails(t *testing.T) {
	disk, told := &noTables{}, make(chan error, 1)
	s, err := Open("db", Options{FS: disk.over(vfs.NewMem()), OnFailure: func(err error) { told <- err }})
	if err != nil {
		t.Fatal(err)
	}
	run := store.RunKey{ID: "r"}
	if err := appendTo(t.Context(), acquire(t, s, run.Partition()), run, 0, 3); err != nil {
		t.Fatal(err)
	}
	disk.full.Store(true)
	if _, err := s.db.AsyncFlush(); err != nil {
		t.Fatal(err)
	}
	if err := <-told; !errors.Is(err, store.ErrFailed) || !errors.Is(err, errorfs.ErrInjected) {
		t.Error(err)
	}
	<-s.Failed()
	if got := read(t, s, run); got.first != 3 {
		t.Errorf("%+v", got)
	}
	_ = s.Usage()
	if _, err := s.Acquire(t.Context(), 0, "a", 0); !errors.Is(err, store.ErrFailed) {
		t.Error(err)
	}
	if err := s.Close(); !errors.Is(err, store.ErrFailed) {
		t.Error(err)
	}
	if n := disk.tries.Load(); n != 1 {
		t.Errorf("a table was tried to be written %d times", n)
	}
}
