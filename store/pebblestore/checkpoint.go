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

// checkpoints is the folder within the store's directory that holds the files of backups that are being made.
const checkpoints = "checkpoints"

// Checkpoint makes a directory that holds the store as it is now: everything that was acknowledged before the call, over all
// partitions, with the modules. Tables are hard links, so that it takes some milliseconds and little space; the log is copied,
// as far as it is durable. Commits go on meanwhile. The caller calls remove when it has read the files. What a process that was
// killed has left of it is removed when the store is opened.
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
	case <-s.failed: // it may wait for ever for those who have met the failure
		err = s.failure()
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("checkpoint: %w", err), remove())
	}
	return dir, remove, nil
}

// checkpoint has Pebble make a checkpoint. Pebble panics when it cannot sync a directory of it; what is left of it is removed,
// and nothing else has happened.
func (s *Store) checkpoint(dir string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return s.db.Checkpoint(dir)
}

// inCheckpoint reports whether a path is that of a checkpoint, or in one. The store does not fail with the copy.
func (s *Store) inCheckpoint(path string) bool {
	return s.onDisk && strings.HasPrefix(path, filepath.Join(s.dir, checkpoints)+string(filepath.Separator))
}

// beginRead is begin for what a failed store refuses, and a copy does not.
func (s *Store) beginRead() (end func(), err error) {
	select {
	case <-s.failed:
		return nil, s.failure()
	default:
		return s.begin()
	}
}

// removeCheckpoints removes what a killed process has left. The database is open, so that no other process has it.
func (s *Store) removeCheckpoints() error {
	if !s.onDisk {
		return nil
	}
	return os.RemoveAll(filepath.Join(s.dir, checkpoints))
}

// A Lock keeps other processes from opening a store.
type Lock struct{ lock *pebble.Lock }

// LockDir locks the directory of a store that nobody has open, so that its files can be copied. It returns store.ErrLocked if
// somebody has.
func LockDir(dir string) (*Lock, error) {
	l, err := pebble.LockDirectory(dir, vfs.Default)
	if err != nil {
		return nil, locked(err)
	}
	return &Lock{l}, nil
}

// Close unlocks the directory.
func (l *Lock) Close() error { return l.lock.Close() }

// locked makes the error of a lock that another process has store.ErrLocked.
func locked(err error) error {
	if isLocked(err) {
		return store.ErrLocked
	}
	return err
}
