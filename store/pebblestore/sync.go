package pebblestore

import (
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// sync commits a batch durably. applied, if set, is called once, when the batch has its place in the log: what is
// committed after that stands behind it there. Pebble parks a goroutine that meets a fatal error, so the commit has
// one of its own, and the caller is told all the same.
func (s *Store) sync(b *pebble.Batch, applied func()) error {
	if applied != nil {
		applied = sync.OnceFunc(applied)
		defer applied()
	}
	done := make(chan error, 1)
	go func() {
		done <- s.unlessClosed(func() error {
			err := s.db.ApplyNoSyncWait(b, pebble.Sync)
			if applied != nil {
				applied()
			}
			if err == nil {
				err = b.SyncWait()
			}
			return err
		})
	}()
	select {
	case err := <-done:
		if err != nil {
			s.fail(err)
			return fmt.Errorf("%w: %w", store.ErrUnknown, s.failure())
		}
		return nil
	case <-s.failed:
		return fmt.Errorf("%w: %w", store.ErrUnknown, s.failure())
	}
}

// unlessClosed calls commit. Nobody waits for the commits of a store that has failed, so it may be closed before one begins:
// Pebble panics then.
func (s *Store) unlessClosed(commit func() error) (err error) {
	defer func() {
		select {
		case <-s.failed:
			if cause := recover(); cause != nil {
				err = fmt.Errorf("%w: %v", store.ErrClosed, cause)
			}
		default:
		}
	}()
	return commit()
}

// drop gives a batch back, for the next one. That of a failed store may still be in use, by the goroutine that commits it.
func (s *Store) drop(b *pebble.Batch) {
	select {
	case <-s.failed:
	default:
		_ = b.Close() // memory only
	}
}

// apply writes a batch that becomes durable with the next one that is synced: it needs no fsync of its own. Like a commit, it
// has a goroutine of its own, and ends when the store fails.
func (s *Store) apply(b *pebble.Batch) error {
	done := make(chan error, 1)
	go func() { done <- s.unlessClosed(func() error { return b.Commit(pebble.NoSync) }) }()
	select {
	case err := <-done:
		if err != nil {
			s.fail(err)
		}
		return err
	case <-s.failed:
		return s.failure()
	}
}
