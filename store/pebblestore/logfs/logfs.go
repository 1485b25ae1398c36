// Package logfs makes the write-ahead log of a Pebble database durable sooner. It is a file system around another one,
// with these changes for the files of the log:
//
//   - They are preallocated and filled with zeros. An fsync of a growing file also writes the file system's journal: two
//     disk writes, one after the other. An fsync of a file that keeps its blocks is one write. Pebble knows this and
//     reuses its files, but it begins with small ones, which grow again the next time.
//   - While goroutines wait for a processor, an fsync does not occupy one: see datasync_linux.go.
//   - They record how much of them is durable, which tells later damage from the traces of a power cut: see Damaged.
//
// A log that is read while it is written, for a backup, ends at its durable offset when it was opened: see Open.
package logfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// category is Pebble's category of log files.
const category vfs.DiskWriteCategory = "pebble-wal"

// prepareAfterBytes is how much of a log is written before the next file is prepared. A store that writes less has no
// prepared file.
const prepareAfterBytes = 64 << 10

// spareName is the name of the prepared file. Pebble ignores files whose names differ from its own patterns.
const spareName = "prepared"

// zeroBytes is the size of a write while a file is prepared.
const zeroBytes = 1 << 20

// spareFree is how many times the size of a log must be free on the disk before a file is prepared: scarce space is
// left for necessary writes.
const spareFree = 16

// workPerProcessor is how many goroutines must wait for each processor before an fsync releases its processor. A turn
// of a run takes some ten microseconds, and an fsync some hundred. With less work, a thread that waits for the disk
// itself is faster: with 4 instead of 8, 16 runs on two processors made a sixth fewer steps per second, and 256 runs as
// many as before.
const workPerProcessor = 8

// lateSync is how long an fsync by the kernel may take until its end is noticed: several times the fsync of a slow
// disk. After a late one, a thread waits for some of the next fsyncs, and for more of them each time.
const (
	lateSync      = 5 * time.Millisecond
	leastByThread = 16
	mostByThread  = 4096
)

// FS is the file system. The zero value is not usable.
type FS struct {
	vfs.FS
	dir, spareName string
	bytes          int64
	syncer         syncer

	mu        sync.Mutex
	preparing sync.WaitGroup
	spare     spareState
	closed    bool
	live      map[string]*logFile // created and not closed, by name; guarded by mu
}

var errStopped = errors.New("the database is being closed")

// spareState is the state of the prepared file.
type spareState uint8

const (
	none spareState = iota
	inPreparation
	ready
)

// New returns a file system for a database in dir, whose logs hold about the given number of bytes each.
func New(under vfs.FS, dir string, bytes int64) *FS {
	return &FS{FS: under, dir: dir, spareName: under.PathJoin(dir, spareName), bytes: bytes}
}

// Clean removes the prepared file that a killed process left. The database is open, so that no other process uses the
// file.
func (f *FS) Clean() error {
	if err := f.FS.Remove(f.spareName); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Stop ends the preparation of a file, and removes the prepared file. It must be called while the caller still owns the
// folder: another process may have a file of the same name afterwards.
func (f *FS) Stop() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.preparing.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spare != ready {
		return nil
	}
	f.spare = none
	return f.FS.Remove(f.spareName)
}

// Close releases the kernel's resources. It is called after Stop, when the database is closed.
func (f *FS) Close() { f.syncer.close() }

// Unwrap returns the wrapped file system.
func (f *FS) Unwrap() vfs.FS { return f.FS }

// Create implements vfs.FS. A log becomes the prepared file, if there is one.
func (f *FS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if c != category {
		return f.FS.Create(name, c)
	}
	if file, ok := f.take(name); ok {
		return f.wrap(name, file, nil)
	}
	file, err := f.FS.Create(name, c)
	return f.wrap(name, file, err)
}

// ReuseForWrite implements vfs.FS. The prepared file replaces an old log that would grow.
func (f *FS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if c != category {
		return f.FS.ReuseForWrite(old, name, c)
	}
	if info, err := f.FS.Stat(old); err == nil && info.Size() < f.bytes {
		if file, ok := f.take(name); ok {
			_ = f.FS.Remove(old) // the database removes unused files when it is opened
			return f.wrap(name, file, nil)
		}
	}
	file, err := f.FS.ReuseForWrite(old, name, c)
	return f.wrap(name, file, err)
}

func (f *FS) wrap(name string, file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	l := &logFile{File: file, fs: f, name: name, runnable: []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.live == nil {
		f.live = map[string]*logFile{}
	}
	f.live[name] = l
	return l, nil
}

// Open implements vfs.FS. For a reader, a log that is being written ends at its durable offset at the time of Open:
// later bytes may be there in part, with holes, and belong to commits that were not acknowledged.
func (f *FS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f.mu.Lock()
	l := f.live[name]
	f.mu.Unlock()
	if l == nil {
		return f.FS.Open(name, opts...)
	}
	durable := l.durable.Load()
	file, err := f.FS.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	return &prefix{File: file, left: durable}, nil
}

// prefix is the beginning of a file.
type prefix struct {
	vfs.File
	left int64
}

// Read implements vfs.File.
func (p *prefix) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n, err := p.File.Read(b[:min(int64(len(b)), p.left)])
	p.left -= int64(n)
	return n, err
}

// take renames the prepared file to name, if there is one, and returns it.
func (f *FS) take(name string) (vfs.File, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spare != ready {
		return nil, false
	}
	f.spare = none
	file, err := f.FS.ReuseForWrite(f.spareName, name, category)
	return file, err == nil
}

// prepare starts the preparation of a file unless there is one.
func (f *FS) prepare() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.spare != none {
		return
	}
	f.spare = inPreparation
	f.preparing.Go(func() {
		err := f.writeSpare()
		if err != nil { // then logs grow; if the disk is full, the partial file would use up space
			_ = f.FS.Remove(f.spareName)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.spare = ready
		if err != nil {
			f.spare = none
		}
	})
}

// writeSpare writes the prepared file and makes it durable. It is filled with zeros, as the end of a log is.
func (f *FS) writeSpare() error {
	if usage, err := f.GetDiskUsage(f.dir); err == nil && usage.AvailBytes < spareFree*uint64(f.bytes) {
		return fmt.Errorf("%d bytes are free", usage.AvailBytes)
	}
	file, err := f.FS.Create(f.spareName, category)
	if err != nil {
		return err
	}
	zeros := make([]byte, zeroBytes)
	for n := int64(0); n < f.bytes && err == nil; n += zeroBytes {
		_, err = file.Write(zeros)
		if f.isClosed() {
			err = errStopped
		}
	}
	if err == nil {
		err = file.Sync()
	}
	if e := file.Close(); err == nil {
		err = e
	}
	return err
}

func (f *FS) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// logFile is a file of the log. One goroutine at a time writes and syncs it.
type logFile struct {
	vfs.File
	fs       *FS
	name     string
	written  int64
	durable  atomic.Int64 // number of durable bytes from the beginning
	prepared bool         // prepare was called for the next log
	saying   []byte       // the bytes to write, see sayDurable

	runnable []metrics.Sample
	byThread int // number of next fsyncs for which a thread waits
	backOff  int // the last value of byThread
}

// Write implements vfs.File.
func (l *logFile) Write(p []byte) (int, error) {
	l.saying = append(l.saying[:0], p...) // p belongs to Pebble
	sayDurable(l.saying, l.written, l.durable.Load())
	n, err := l.File.Write(l.saying)
	l.written += int64(n)
	if !l.prepared && l.written >= prepareAfterBytes {
		l.prepared = true
		l.fs.prepare()
	}
	return n, err
}

// Sync implements vfs.File. Syncing the data is enough for a log.
func (l *logFile) Sync() error { return l.SyncData() }

// SyncData implements vfs.File.
func (l *logFile) SyncData() error {
	written := l.written
	err := l.dataSync()
	if err == nil {
		l.durable.Store(written)
	}
	return err
}

func (l *logFile) dataSync() error {
	if l.byThread > 0 {
		l.byThread--
	} else if l.busy() {
		begun := Elapsed()
		if done, err := l.fs.syncer.dataSync(l.Fd()); done {
			l.noticed(Elapsed() - begun)
			return err
		}
	}
	return l.File.SyncData()
}

// Close implements vfs.File. Afterwards, readers see the whole log.
func (l *logFile) Close() error {
	l.fs.mu.Lock()
	if l.fs.live[l.name] == l {
		delete(l.fs.live, l.name)
	}
	l.fs.mu.Unlock()
	return l.File.Close()
}

// noticed records how long it took to notice the end of an fsync by the kernel. If goroutines never stop computing, Go
// polls only after ten milliseconds or more, and a thread is the better choice for a while.
func (l *logFile) noticed(took time.Duration) {
	if took < lateSync {
		l.backOff = 0
		return
	}
	l.backOff = min(max(2*l.backOff, leastByThread), mostByThread)
	l.byThread = l.backOff
}

// busy reports whether goroutines wait for processors. Before Go 1.26, the metric does not exist, and busy is false.
func (l *logFile) busy() bool {
	metrics.Read(l.runnable)
	v := l.runnable[0].Value
	return v.Kind() == metrics.KindUint64 && v.Uint64() >= uint64(workPerProcessor*runtime.GOMAXPROCS(0))
}
