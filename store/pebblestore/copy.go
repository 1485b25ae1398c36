package pebblestore

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// copyKey exists while the store is a copy that must not act.
var copyKey = store.GlobalKey(0, store.TableMeta, []byte("copy"))

// readCopy loads the mark when the store is opened.
func (s *Store) readCopy() error {
	v, err := s.get(copyKey)
	s.copied.Store(v != nil)
	return err
}

// IsCopy reports whether the store is a copy: it can be read, and refuses changes with store.ErrCopy.
func (s *Store) IsCopy() bool { return s.copied.Load() }

// MarkCopy makes the store a copy, durable on return. Writes that are in flight may still complete.
func (s *Store) MarkCopy() error {
	return s.setCopy(true, func(b *pebble.Batch) error { return b.Set(copyKey, []byte{1}, nil) })
}

// ReleaseCopy makes a copy an ordinary store, durable on return. It does nothing to a store that is not a copy.
func (s *Store) ReleaseCopy() error {
	if !s.IsCopy() {
		return nil
	}
	return s.setCopy(false, func(b *pebble.Batch) error { return b.Delete(copyKey, nil) })
}

func (s *Store) setCopy(is bool, fill func(*pebble.Batch) error) error {
	if s.readOnly {
		return store.ErrReadOnly
	}
	end, err := s.begin()
	if err != nil {
		return err
	}
	defer end()
	b := s.db.NewBatch()
	defer s.drop(b)
	if err := fill(b); err != nil {
		return err
	}
	if err := s.sync(b, nil); err != nil {
		return err
	}
	s.copied.Store(is)
	return nil
}
