package pebblestore

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Usage counts the writes of a store since it was opened. The difference of two values counts the writes in between.
type Usage struct {
	// LogBytes is what was written to the write-ahead log, and TableBytes what flushes and compactions have written.
	// (LogBytes + TableBytes) / LogBytes is the write amplification.
	LogBytes, TableBytes uint64
	// Syncs is how often the log was synced, and LogBusy how long the goroutine that writes and syncs it was busy. Both
	// are 0 without Options.Elapsed.
	Syncs   uint64
	LogBusy time.Duration
}

// Usage returns the store's writes, and zeros if it is closed or has failed. It takes some microseconds, or as long as
// a MANIFEST is being written.
func (s *Store) Usage() Usage {
	select {
	case <-s.failed: // Pebble may never release its lock
		return Usage{}
	default:
	}
	end, err := s.begin()
	if err != nil {
		return Usage{}
	}
	defer end()
	m := s.db.Metrics()
	total := m.Total()
	return Usage{LogBytes: m.WAL.BytesWritten, TableBytes: total.TableBytesFlushed - total.TableBytesIn + total.TableBytesCompacted,
		Syncs: s.log.syncs.Load(), LogBusy: time.Duration(s.log.busyNs.Load())}
}

// Behind reports whether the store is flushing earlier commits to a table, or has many tables to compact. Guests that
// write much should wait while it is true: if they are faster than the disk, all commits wait in the end. A failed
// store is not behind: it never catches up, and refuses writes.
//
// Behind does not block. The sublevels are counted in the background, and the former count is used until that is done.
func (s *Store) Behind() bool {
	select {
	case <-s.failed:
		return false
	default:
	}
	if s.flushes.Load() > 0 {
		return true
	}
	if !s.sorted.Swap(true) {
		s.countLayers()
	}
	return s.unsorted.Load() >= manyUnsorted
}

// countLayers counts the sublevels in the background: Pebble blocks the caller while it writes a MANIFEST, and forever
// if that has failed.
func (s *Store) countLayers() {
	end, err := s.begin()
	if err != nil {
		return
	}
	go func() {
		defer end()
		s.counting.Lock() // so that the newest number is stored last
		defer s.counting.Unlock()
		s.unsorted.Store(s.db.Metrics().Levels[0].Sublevels)
	}()
}

// logMeter is a file system that measures the write-ahead log.
type logMeter struct {
	vfs.FS
	*meter
}

type meter struct {
	elapsed func() time.Duration // Options.Elapsed
	syncs   atomic.Uint64
	busyNs  atomic.Int64
}

// logCategory is Pebble's category of log files.
const logCategory vfs.DiskWriteCategory = "pebble-wal"

func (l logMeter) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.Create(name, category)
	return l.wrap(f, category, err)
}

func (l logMeter) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.ReuseForWrite(oldname, newname, category)
	return l.wrap(f, category, err)
}

func (l logMeter) wrap(f vfs.File, category vfs.DiskWriteCategory, err error) (vfs.File, error) {
	if err != nil || category != logCategory {
		return f, err
	}
	return logFile{f, l.meter}, nil
}

// Unwrap returns the wrapped file system.
func (l logMeter) Unwrap() vfs.FS { return l.FS }

// logFile is a file of the log.
type logFile struct {
	vfs.File
	*meter
}

// time adds to the log's busy time until end is called.
func (m *meter) time() (end func()) {
	begun := m.elapsed()
	return func() { m.busyNs.Add(int64(m.elapsed() - begun)) }
}

func (f logFile) Write(p []byte) (int, error) {
	defer f.time()()
	return f.File.Write(p)
}

func (f logFile) Sync() error {
	defer f.time()()
	f.syncs.Add(1)
	return f.File.Sync()
}

func (f logFile) SyncData() error {
	defer f.time()()
	f.syncs.Add(1)
	return f.File.SyncData()
}
