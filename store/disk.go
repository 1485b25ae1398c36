package store

import (
	"context"
	"time"
)

// Disk describes the disk that holds a store.
type Disk struct {
	Path  string // the directory of the store
	Free  uint64 // bytes that the store may still take
	Total uint64 // bytes of the whole file system
	// Stalls counts the operations of the disk since the store was opened that took longer than two seconds, those in progress
	// included.
	Stalls uint64
}

// OnDisk is implemented by stores that can tell how much room is left for them.
type OnDisk interface {
	// Disk asks the file system. It takes about a microsecond. It returns errors.ErrUnsupported if there is no disk.
	Disk() (Disk, error)
}

// Reclaiming is implemented by stores that keep the room of what was deleted until something else is written.
type Reclaiming interface {
	// Reclaim gives the room of what was deleted back to the disk. It writes tables meanwhile, and ends with an error where there
	// is no room for them. It blocks until nothing is left to give back, and returns at once if nothing was deleted since.
	Reclaim(ctx context.Context) error
}

// Failing is implemented by stores that fail by themselves: a table that cannot be written fails a store in which
// nobody writes.
type Failing interface {
	// Failed returns a channel that is closed when the store has failed.
	Failed() <-chan struct{}
	// Failure returns why, as an ErrFailed. It is called after Failed is closed.
	Failure() error
}

// Measures says how large a store is, and how long it had commits wait, since it was opened.
type Measures struct {
	Bytes       uint64        // of its files, as they were a moment ago
	WriteStalls uint64        // how often commits waited until the store had caught up with those before
	Stalled     time.Duration // how long they waited, a stall in progress included
}

// Measured is implemented by stores that measure themselves.
type Measured interface {
	// Measure takes some microseconds, and at most a tenth of a second. It returns errors.ErrUnsupported if there is nothing to
	// measure.
	Measure() (Measures, error)
}
