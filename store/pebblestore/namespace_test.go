package pebblestore

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// TestManyNamespaces creates the last possible namespace; another one is refused.
func TestManyNamespaces(t *testing.T) {
	s, err := Open("db", Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.db.Set(namespaceCounter, binary.BigEndian.AppendUint32(nil, store.MaxNamespaces-1), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	id, err := s.Namespace(t.Context(), "last", true)
	if err != nil || id != store.MaxNamespaces {
		t.Fatalf("the last namespace has the id %d, %v", id, err)
	}
	if _, err := s.Namespace(t.Context(), "one-more", true); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("one more: %v", err)
	}
	if _, err := s.Namespace(t.Context(), "one-more", false); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("one more: %v", err)
	}
	if again, err := s.Namespace(t.Context(), "last", true); err != nil || again != id {
		t.Errorf("the last namespace has the id %d, %v", again, err)
	}
}
