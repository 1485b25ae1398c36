package store

import (
	"context"
	"time"
)

// Disk describes the disk that holds a store.
type Disk struct {
	Path  string // the directory of the store
	Free  uint64 // bytes that are left for the store
	Total uint64 // bytes of the whole file system
	// Stalls counts the operations of the disk since the store was opened that took longer than two seconds, including
	// operations in progress.
	Stalls uint64
}

// OnDisk is implemented by stores that know how much disk space is left for them.
type OnDisk interface {
	// Disk asks the file system, which takes about a microsecond. It returns errors.ErrUnsupported if there is no disk.
	Disk() (Disk, error)
}

// Reclaiming is implemented by stores that do not free the space of deleted records until other records are written.
type Reclaiming interface {
	// Reclaim frees the disk space of deleted records. It writes tables meanwhile, and fails if there is no room for
	// them. It blocks until there is nothing left to free, and returns at once if nothing was deleted since the last
	// call.
	Reclaim(ctx context.Context) error
}

// Failing is implemented by stores that can fail in the background: if a table cannot be written, a store fails without
// any commit in flight.
type Failing interface {
	// Failed returns a channel that is closed when the store has failed.
	Failed() <-chan struct{}
	// Failure returns the reason, as an ErrFailed. It is called after Failed is closed.
	Failure() error
}

// Measures is the size of a store, and how long commits stalled since it was opened.
type Measures struct {
	Bytes       uint64        // of the store's files, as of a moment ago
	WriteStalls uint64        // how often commits waited until the store had caught up with earlier commits
	Stalled     time.Duration // how long they waited, including a stall in progress
}

// Measured is implemented by stores that measure themselves.
type Measured interface {
	// Measure takes some microseconds, and at most a tenth of a second. It returns errors.ErrUnsupported if there is nothing to
	// measure.
	Measure() (Measures, error)
}
