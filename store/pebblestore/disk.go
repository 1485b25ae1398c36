package pebblestore

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

var (
	_ store.OnDisk  = (*Store)(nil)
	_ store.Failing = (*Store)(nil)
)

// Disk asks the file system how much room is left. It also answers for a store that has failed or is closed.
func (s *Store) Disk() (store.Disk, error) {
	usage, err := s.fs.GetDiskUsage(s.dir)
	if errors.Is(err, vfs.ErrUnsupported) { // a file system in memory
		err = errors.ErrUnsupported
	}
	if err != nil {
		return store.Disk{}, fmt.Errorf("free space of %s: %w", s.dir, err)
	}
	return store.Disk{Path: s.dir, Free: usage.AvailBytes, Total: usage.TotalBytes, Stalls: s.stalls.count.Load()}, nil
}

// Failed implements store.Failing.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Failure implements store.Failing.
func (s *Store) Failure() error { return s.failure() }
