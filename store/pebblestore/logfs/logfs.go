// Package logfs makes the write-ahead log of a Pebble database durable sooner. It is a file system around another one, and
// changes these things about the files of the log:
//
//   - They are written before they are used. An fsync of a file that grows has the file system's journal written, too, which
//     is two writes of the disk, one after the other, where that of a file which keeps its blocks is one. Pebble knows this and
//     uses its files again; but it begins with small ones, which grow again the next time.
//   - While goroutines wait for a processor, an fsync does not keep one: see datasync_linux.go.
//   - They say how much of them is durable, so that what was damaged since is told from what a power cut has left: see Damaged.
//
// A log that is read while it is written, for a backup, ends where it was durable when it was opened: see Open.
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

// category is what Pebble calls files of the log.
const category vfs.DiskWriteCategory = "pebble-wal"

// prepareAfterBytes is how much of a log is written before another one is prepared: a store that writes less keeps no
// prepared file.
const prepareAfterBytes = 64 << 10

// spareName is what the prepared file is called. Pebble leaves files alone whose names are not like its own.
const spareName = "prepared"

// zeroBytes is how much of a file is prepared at a time.
const zeroBytes = 1 << 20

// spareFree is how many times the size of a log must be free on the disk for one to be prepared: where space is scarce, it is
// left to what has to be written.
const spareFree = 16

// workPerProcessor is how many goroutines wait for each processor when an fsync should not keep one: a turn of a run takes
// some ten microseconds, and an fsync some hundred. With less to do, the thread that waits for the disk itself is the
// faster one: 16 runs on two processors made a sixth fewer steps in a second when it was 4 in place of 8, and 256 as many.
const workPerProcessor = 8

// lateSync is how long an fsync of the kernel may take until it is noticed: some times what one of a slow disk takes. Some of
// those that come after it are then waited for by a thread, and more of them each time.
const (
	lateSync      = 5 * time.Millisecond
	leastByThread = 16
	mostByThread  = 4096
)

// FS is the file system. Its zero value is not usable.
type FS struct {
	vfs.FS
	dir, spareName string
	bytes          int64
	syncer         syncer

	mu        sync.Mutex
	preparing sync.WaitGroup
	spare     spareState
	closed    bool
	live      map[string]*logFile // by name, those that were created and not closed; guarded by mu
}

var errStopped = errors.New("the database is being closed")

// spareState tells about the prepared file.
type spareState uint8

const (
	none spareState = iota
	inPreparation
	ready
)

// New returns a file system for a database in dir, whose logs hold about so many bytes each.
func New(under vfs.FS, dir string, bytes int64) *FS {
	return &FS{FS: under, dir: dir, spareName: under.PathJoin(dir, spareName), bytes: bytes}
}

// Clean removes what a process that was killed has left. The database is open, so that no other process has it.
func (f *FS) Clean() error {
	if err := f.FS.Remove(f.spareName); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Stop ends what is being prepared, and removes it. It is called while the folder is the caller's still: somebody else may
// have a file of the same name afterwards.
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

// Close releases the kernel's resources. It comes after Stop, when the database is closed.
func (f *FS) Close() { f.syncer.close() }

// Unwrap returns the wrapped file system.
func (f *FS) Unwrap() vfs.FS { return f.FS }

// Create implements vfs.FS: a log is the prepared file, if there is one.
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

// ReuseForWrite implements vfs.FS: the prepared file takes the place of an old log that would grow.
func (f *FS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if c != category {
		return f.FS.ReuseForWrite(old, name, c)
	}
	if info, err := f.FS.Stat(old); err == nil && info.Size() < f.bytes {
		if file, ok := f.take(name); ok {
			_ = f.FS.Remove(old) // the database removes what it has no use for when it is opened
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

// Open implements vfs.FS. A log that is being written ends, for who reads it, where it was durable when it was opened: what
// comes behind that may be there in part, with holes, and belongs to commits of which nobody was told.
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

// prepare makes sure that there is a prepared file soon.
func (f *FS) prepare() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.spare != none {
		return
	}
	f.spare = inPreparation
	f.preparing.Go(func() {
		err := f.writeSpare()
		if err != nil { // logs grow, then; should the disk be full, what was written of the file is in the way
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

// writeSpare writes the prepared file, and makes it durable. Zeros are what a log ends with.
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
	durable  atomic.Int64 // so many bytes from the beginning
	prepared bool         // what comes after it
	saying   []byte       // what is written, see sayDurable

	runnable []metrics.Sample
	byThread int // how many of the next fsyncs a thread waits for
	backOff  int // what that was the last time
}

// Write implements vfs.File.
func (l *logFile) Write(p []byte) (int, error) {
	l.saying = append(l.saying[:0], p...) // p is Pebble's
	sayDurable(l.saying, l.written, l.durable.Load())
	n, err := l.File.Write(l.saying)
	l.written += int64(n)
	if !l.prepared && l.written >= prepareAfterBytes {
		l.prepared = true
		l.fs.prepare()
	}
	return n, err
}

// Sync implements vfs.File. What a log needs besides its blocks is durable with its data.
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

// Close implements vfs.File. The log is whole from then on.
func (l *logFile) Close() error {
	l.fs.mu.Lock()
	if l.fs.live[l.name] == l {
		delete(l.fs.live, l.name)
	}
	l.fs.mu.Unlock()
	return l.File.Close()
}

// noticed says how long it took until an fsync of the kernel was noticed. Where goroutines never stop computing, Go looks for
// it after ten milliseconds and more, and the thread is the better choice for a while.
func (l *logFile) noticed(took time.Duration) {
	if took < lateSync {
		l.backOff = 0
		return
	}
	l.backOff = min(max(2*l.backOff, leastByThread), mostByThread)
	l.byThread = l.backOff
}

// busy says whether goroutines wait for processors. Before Go 1.26, nothing tells.
func (l *logFile) busy() bool {
	metrics.Read(l.runnable)
	v := l.runnable[0].Value
	return v.Kind() == metrics.KindUint64 && v.Uint64() >= uint64(workPerProcessor*runtime.GOMAXPROCS(0))
}
