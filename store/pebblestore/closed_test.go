package pebblestore

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// TestCommitOfAStoreThatWasClosed has a store fail and be closed before a commit without a waiting caller reaches
// Pebble.
func TestCommitOfAStoreThatWasClosed(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := s.db.NewBatch()
	if err := b.Set([]byte("key"), nil, nil); err != nil {
		t.Fatal(err)
	}
	s.fail(errors.New("the disk is gone"))
	if err := s.Close(); !errors.Is(err, store.ErrFailed) {
		t.Fatal(err)
	}
	if err := s.unlessClosed(func() error { return s.db.ApplyNoSyncWait(b, pebble.Sync) }); !errors.Is(err, store.ErrClosed) {
		t.Errorf("%v, not %v", err, store.ErrClosed)
	}
}
