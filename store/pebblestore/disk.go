package pebblestore

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore/logfs"
)

var (
	_ store.OnDisk  = (*Store)(nil)
	_ store.Failing = (*Store)(nil)
)

const (
	// plenty is so much free space that no disk can fill it within diskMoment. It is many times the default reserve of
	// a host. A host with a larger reserve learns up to diskMoment too late that the space is used up.
	plenty = 8 << 30
	// diskMoment is how long the answer is cached. Each start asks, and the system call takes a noticeable part of a
	// start.
	diskMoment = 10 * time.Millisecond
)

// diskLook is the cached usage of a disk with plenty of room.
type diskLook struct {
	usage vfs.DiskUsage
	at    time.Duration // since the beginning of the process
}

// Disk asks the file system how much space is left, or returns the answer of a moment ago if it was plenty. It also
// works for a store that has failed or is closed.
func (s *Store) Disk() (store.Disk, error) {
	usage, err := s.usage()
	if errors.Is(err, vfs.ErrUnsupported) { // a file system in memory
		err = errors.ErrUnsupported
	}
	if err != nil {
		return store.Disk{}, fmt.Errorf("free space of %s: %w", s.dir, err)
	}
	return store.Disk{Path: s.dir, Free: usage.AvailBytes, Total: usage.TotalBytes, Stalls: s.stalls.count.Load()}, nil
}

func (s *Store) usage() (vfs.DiskUsage, error) {
	now := logfs.Elapsed()
	if l := s.disk.Load(); l != nil && now-l.at < diskMoment {
		return l.usage, nil
	}
	usage, err := s.fs.GetDiskUsage(s.dir)
	if err == nil && usage.AvailBytes >= plenty {
		s.disk.Store(&diskLook{usage, now})
	}
	return usage, err
}

// Failed implements store.Failing.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Failure implements store.Failing.
func (s *Store) Failure() error { return s.failure() }
