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

// Usage returns what the store has written, and nothing of one that is closed. It takes some microseconds.
func (s *Store) Usage() Usage {
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
