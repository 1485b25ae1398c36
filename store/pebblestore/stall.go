package pebblestore

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store/pebblestore/logfs"
)

// slowDisk is how long a disk operation may take before it is reported. All runs wait for an fsync, which takes less
// than a tenth of a second on a working disk.
const slowDisk = 2 * time.Second

// stall is a disk operation that takes long.
type stall struct {
	Op   string
	Path string
	For  time.Duration // so far
	Over bool          // the operation has ended
}

// stallFS is a file system that reports slow writes and fsyncs while they are in progress. It is above logfs, whose own
// fsyncs a lower layer would not see. Pebble's file system for this purpose keeps a goroutine per open file that polls
// it every two seconds, also in a host whose runs all sleep.
type stallFS struct {
	vfs.FS
	*stallWatch
}

// stallWatch tracks the operations in progress. It has a timer while there are any, which fires at most once per
// slowDisk.
type stallWatch struct {
	report func(stall)
	count  atomic.Uint64 // operations reported

	mu      sync.Mutex
	pending []pendingOp // elements with an empty op are free
	armed   bool        // the timer is running
	stop    func() bool // of the timer
	closed  bool
}

type pendingOp struct {
	op, path string
	begun    time.Duration
	next     time.Duration // report again after this duration; slowDisk at first
}

// reportStall logs a slow disk operation.
func (o *Options) reportStall(s stall) {
	if o.Logger == nil {
		return
	}
	text := "the disk is slow, and commits wait for it"
	if s.Over {
		text = "the disk has answered"
	}
	o.Logger.Warn(text, "operation", s.Op, "file", s.Path, "for", s.For.Round(time.Millisecond))
}

// begin records an operation, and returns its index, for end.
func (w *stallWatch) begin(op, path string) int {
	now := logfs.Elapsed()
	w.mu.Lock()
	defer w.mu.Unlock()
	i := 0
	for i < len(w.pending) && w.pending[i].op != "" {
		i++
	}
	if i == len(w.pending) {
		w.pending = append(w.pending, pendingOp{})
	}
	w.pending[i] = pendingOp{op, path, now, slowDisk}
	if !w.armed {
		w.arm(slowDisk)
	}
	return i
}

// arm sets the timer. mu is held.
func (w *stallWatch) arm(d time.Duration) {
	w.armed = !w.closed
	if w.armed {
		w.stop = logfs.AfterFunc(d, w.check)
	}
}

// end records the end of an operation, and reports it again if it was reported before.
func (w *stallWatch) end(i int) {
	w.mu.Lock()
	p := w.pending[i]
	w.pending[i].op = ""
	w.mu.Unlock()
	if p.next > slowDisk {
		w.report(stall{p.op, p.path, logfs.Elapsed() - p.begun, true})
	}
}

// check reports the slow operations: each after slowDisk, and again whenever its duration has doubled.
func (w *stallWatch) check() {
	now := logfs.Elapsed()
	var slow []stall
	w.mu.Lock()
	wait := time.Duration(-1)
	for i := range w.pending {
		p := &w.pending[i]
		if p.op == "" {
			continue
		}
		took := now - p.begun
		if took >= p.next {
			if p.next == slowDisk {
				w.count.Add(1)
			}
			for p.next <= took {
				p.next *= 2
			}
			slow = append(slow, stall{p.op, p.path, took, false})
		}
		if left := p.next - took; wait < 0 || left < wait {
			wait = left
		}
	}
	w.armed = false
	if wait >= 0 {
		w.arm(wait)
	}
	w.mu.Unlock()
	for _, s := range slow {
		w.report(s)
	}
}

// close ends the watch. Operations in progress are no longer reported.
func (w *stallWatch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.armed {
		w.stop()
	}
}

func (f stallFS) wrap(file vfs.File, path string, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return stallFile{file, path, f.stallWatch}, nil
}

// Unwrap returns the wrapped file system.
func (f stallFS) Unwrap() vfs.FS { return f.FS }

// Create implements vfs.FS.
func (f stallFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	defer f.end(f.begin("create", name))
	file, err := f.FS.Create(name, c)
	return f.wrap(file, name, err)
}

// ReuseForWrite implements vfs.FS.
func (f stallFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	defer f.end(f.begin("reuse", name))
	file, err := f.FS.ReuseForWrite(old, name, c)
	return f.wrap(file, name, err)
}

// OpenReadWrite implements vfs.FS.
func (f stallFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.OpenReadWrite(name, c, opts...)
	return f.wrap(file, name, err)
}

// OpenDir implements vfs.FS: directories are synced.
func (f stallFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	return f.wrap(file, name, err)
}

// Link implements vfs.FS.
func (f stallFS) Link(old, name string) error {
	defer f.end(f.begin("link", name))
	return f.FS.Link(old, name)
}

// Remove implements vfs.FS.
func (f stallFS) Remove(name string) error {
	defer f.end(f.begin("remove", name))
	return f.FS.Remove(name)
}

// Rename implements vfs.FS.
func (f stallFS) Rename(old, name string) error {
	defer f.end(f.begin("rename", name))
	return f.FS.Rename(old, name)
}

// MkdirAll implements vfs.FS.
func (f stallFS) MkdirAll(dir string, mode os.FileMode) error {
	defer f.end(f.begin("mkdir", dir))
	return f.FS.MkdirAll(dir, mode)
}

// stallFile is a written file, or a directory.
type stallFile struct {
	vfs.File
	path string
	*stallWatch
}

func (f stallFile) Write(p []byte) (int, error) {
	defer f.end(f.begin("write", f.path))
	return f.File.Write(p)
}

func (f stallFile) WriteAt(p []byte, at int64) (int, error) {
	defer f.end(f.begin("write", f.path))
	return f.File.WriteAt(p, at)
}

func (f stallFile) Sync() error {
	defer f.end(f.begin("sync", f.path))
	return f.File.Sync()
}

func (f stallFile) SyncData() error {
	defer f.end(f.begin("sync", f.path))
	return f.File.SyncData()
}

func (f stallFile) SyncTo(length int64) (bool, error) {
	defer f.end(f.begin("sync", f.path))
	return f.File.SyncTo(length)
}

func (f stallFile) Close() error {
	defer f.end(f.begin("close", f.path))
	return f.File.Close()
}
