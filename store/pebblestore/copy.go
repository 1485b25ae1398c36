package pebblestore

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/transfer"
)

// copyKey exists while the store is a copy that must not act, or has a mark of package transfer. Releases that do not know such
// marks take the store for a copy, in which nothing runs.
var copyKey = store.GlobalKey(0, store.TableMeta, []byte("copy"))

// The first byte of the value. After markTransfer comes the text of a transfer.Mark.
const (
	markCopy     = 1
	markTransfer = 2
)

// readCopy loads the mark when the store is opened. It refuses a store that was moved, unless it is opened to be read, and an
// incomplete one.
func (s *Store) readCopy(opts Options) error {
	v, err := s.get(copyKey)
	s.copied.Store(v != nil)
	if err != nil || opts.transfer {
		return err
	}
	m, err := decodeMark(v)
	if err != nil || m == nil || m.State == transfer.Held || m.State == transfer.Moved && s.readOnly {
		return err
	}
	return m.Refuse(s.dir)
}

func decodeMark(v []byte) (*transfer.Mark, error) {
	switch {
	case v == nil:
		return nil, nil
	case len(v) == 1 && v[0] == markCopy:
		return &transfer.Mark{State: transfer.Held}, nil
	case len(v) > 1 && v[0] == markTransfer:
		return transfer.DecodeMark(v[1:])
	}
	return nil, fmt.Errorf("%w: the mark of a copy in %d bytes", store.ErrCorrupt, len(v))
}

// IsCopy reports whether the store is a copy: it can be read, and refuses changes with store.ErrCopy.
func (s *Store) IsCopy() bool { return s.copied.Load() }

// MarkCopy makes the store a copy, durable on return. Writes that are in flight may still complete.
func (s *Store) MarkCopy() error {
	return s.setCopy(true, func(b *pebble.Batch) error { return b.Set(copyKey, []byte{markCopy}, nil) })
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
