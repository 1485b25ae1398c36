package pebblestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// checkpoints is the folder within the store's directory for the files of backups in progress.
const checkpoints = "checkpoints"

// Checkpoint makes a directory that holds the store as it is now: everything that was acknowledged before the call,
// over all partitions, with the modules. Tables are hard links, so that it takes some milliseconds and little space.
// The durable part of the log is copied. Commits continue meanwhile. The caller calls remove when it has read the
// files. Checkpoints that a killed process left are removed when the store is opened.
func (s *Store) Checkpoint() (dir string, remove func() error, err error) {
	if !s.onDisk || s.readOnly {
		return "", nil, errors.New("a checkpoint is made of a store on disk that is open for writing")
	}
	end, err := s.beginRead()
	if err != nil {
		return "", nil, err
	}
	defer end()
	dir = filepath.Join(s.dir, checkpoints, fmt.Sprint(s.points.Add(1)))
	remove = func() error { return os.RemoveAll(dir) }
	done := make(chan error, 1)
	go func() { done <- s.checkpoint(dir) }()
	select {
	case err = <-done:
	case <-s.failed: // Pebble may wait forever for a parked goroutine
		err = s.failure()
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("checkpoint: %w", err), remove())
	}
	return dir, remove, nil
}

// checkpoint makes a checkpoint with Pebble. If Pebble cannot sync a directory of it, it panics; then the files of the
// checkpoint are removed, and the store is not affected.
func (s *Store) checkpoint(dir string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return s.db.Checkpoint(dir)
}

// inCheckpoint reports whether a path is a checkpoint, or in one. Errors there do not fail the store.
func (s *Store) inCheckpoint(path string) bool {
	return s.onDisk && strings.HasPrefix(path, filepath.Join(s.dir, checkpoints)+string(filepath.Separator))
}

// beginRead is like begin, for calls that a copy allows and a failed store refuses.
func (s *Store) beginRead() (end func(), err error) {
	select {
	case <-s.failed:
		return nil, s.failure()
	default:
		return s.begin()
	}
}

// removeCheckpoints removes the checkpoints that a killed process left. The database is open, so that no other process
// uses them.
func (s *Store) removeCheckpoints() error {
	if !s.onDisk {
		return nil
	}
	return os.RemoveAll(filepath.Join(s.dir, checkpoints))
}

// A Lock keeps other processes from opening a store.
type Lock struct{ lock *pebble.Lock }

// LockDir locks the directory of a store that is not open, so that its files can be copied. It returns store.ErrLocked
// if a process has it open.
func LockDir(dir string) (*Lock, error) {
	l, err := pebble.LockDirectory(dir, vfs.Default)
	if err != nil {
		return nil, locked(err)
	}
	return &Lock{l}, nil
}

// Close unlocks the directory.
func (l *Lock) Close() error { return l.lock.Close() }

// locked maps Pebble's error for a lock of another process to store.ErrLocked.
func locked(err error) error {
	if isLocked(err) {
		return store.ErrLocked
	}
	return err
}
