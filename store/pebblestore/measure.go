package pebblestore

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore/logfs"
)

var _ store.Measured = (*Store)(nil)

// sizePatience is how long Measure waits for the size of the store. Pebble blocks it while a MANIFEST is written, which
// takes some milliseconds on a working disk.
const sizePatience = 100 * time.Millisecond

// Measure implements store.Measured. For a store that is closed or has failed it returns the last known values.
func (s *Store) Measure() (store.Measures, error) {
	m := store.Measures{Bytes: s.size()}
	m.WriteStalls, m.Stalled = s.writes.sum()
	return m, nil
}

// size returns the bytes of the store's files, or the last count if counting takes longer than sizePatience.
func (s *Store) size() uint64 {
	if !s.files.counting.CompareAndSwap(false, true) {
		return s.files.bytes.Load()
	}
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		defer s.files.counting.Store(false)
		s.countBytes()
	}()
	late := make(chan struct{})
	stop := logfs.AfterFunc(sizePatience, func() { close(late) })
	defer stop()
	select {
	case <-counted:
	case <-late:
	}
	return s.files.bytes.Load()
}

// countBytes counts the bytes of the files. It may never return in a store that fails meanwhile.
func (s *Store) countBytes() {
	select {
	case <-s.failed: // Pebble may never release its lock
		return
	default:
	}
	if end, err := s.begin(); err == nil {
		defer end()
		s.files.bytes.Store(s.db.Metrics().DiskSpaceUsage())
	}
}

// fileSize is the size of the store's files.
type fileSize struct {
	counting atomic.Bool   // bytes is being counted
	bytes    atomic.Uint64 // as last counted
}

// writeStalls measures how often and how long commits wait because Pebble has many tables to write or to compact. There
// is at most one such stall at a time.
type writeStalls struct {
	mu      sync.Mutex // guards the fields below; no calls are made while it is held
	count   uint64
	over    time.Duration // total of the stalls that have ended
	stalled bool
	begun   time.Duration // start of the stall in progress
}

// stall records and logs the beginning of a stall.
func (w *writeStalls) stall(log *slog.Logger, reason string) {
	log.Warn("writes stall", "reason", reason)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count, w.stalled, w.begun = w.count+1, true, logfs.Elapsed()
}

// goOn records the end of a stall.
func (w *writeStalls) goOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stalled {
		w.stalled, w.over = false, w.over+logfs.Elapsed()-w.begun
	}
}

// sum returns the number of stalls and their total duration, including a stall in progress.
func (w *writeStalls) sum() (count uint64, total time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	total = w.over
	if w.stalled {
		total += logfs.Elapsed() - w.begun
	}
	return w.count, total
}
