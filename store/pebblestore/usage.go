package pebblestore

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Usage is what a store has written since it was opened. The difference of two tells what was written in between.
type Usage struct {
	// LogBytes is what was written to the write-ahead log, and TableBytes what flushes and compactions have written: by how much
	// both together exceed the former is the write amplification.
	LogBytes, TableBytes uint64
	// Syncs is how often the log was made durable, and LogBusy how long it was written and synced, by the one goroutine that does
	// that. Both are 0 without Options.Elapsed.
	Syncs   uint64
	LogBusy time.Duration
}

// Usage returns what the store has written, and nothing of one that is closed or has failed. It takes some microseconds, or as
// long as a MANIFEST is being written.
func (s *Store) Usage() Usage {
	select {
	case <-s.failed: // Pebble may keep its lock for ever
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

// Behind reports whether the store is writing a table of what was committed before, or has many to sort. Guests that have much to
// write should wait until it is done: if they are faster than the disk, all commits wait in the end. A store that has failed is
// not behind: it never catches up, and refuses what is written.
//
// Behind takes no time. The layers are counted in the background, and until that is done the former number counts.
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

// countLayers counts the layers in the background: Pebble has the caller wait while it writes a MANIFEST, and for ever if that
// has failed.
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

// logCategory is what Pebble calls files of the log.
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

// Unwrap gives the file system below.
func (l logMeter) Unwrap() vfs.FS { return l.FS }

// logFile is a file of the log.
type logFile struct {
	vfs.File
	*meter
}

// time counts how long the log is busy, until the answer is called.
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
