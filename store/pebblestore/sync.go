package pebblestore

import (
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// sync commits a batch durably. applied, if set, is called once, when the batch has its place in the log: later commits
// are behind it there. Pebble parks a goroutine that meets a fatal error, so the commit runs in a goroutine of its own,
// and sync returns in any case.
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

// unlessClosed calls commit and recovers Pebble's panic on a closed database. Close does not wait for the commits of a
// failed store, so it may close the database before a commit begins.
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

// drop returns a batch to the pool. It keeps the batch of a failed store, which the committing goroutine may still use.
func (s *Store) drop(b *pebble.Batch) {
	select {
	case <-s.failed:
	default:
		_ = b.Close() // memory only
	}
}

// apply writes a batch without an fsync: it becomes durable with the next synced batch. Like sync, it uses a goroutine
// of its own, and returns if the store fails.
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
