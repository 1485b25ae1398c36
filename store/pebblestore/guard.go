package pebblestore

import (
	"io"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard is a file system whose write-ahead log never answers Pebble with an error once the store is open: the store fails, all
// that wait are told, and the goroutine that met the error stays where it is, as one does that meets a fatal error. Pebble
// panics on such an error, where it changes from one file of the log to the next with a lock that its own recovery unlocks once
// more, which ends the process; and a commit that comes after a failed fsync panics, too.
type guard struct {
	vfs.FS
	opened *atomic.Bool
	fail   func(error)
	lock   *io.Closer // set to the lock of the directory
}

// Lock implements vfs.FS.
func (g guard) Lock(name string) (io.Closer, error) {
	c, err := g.FS.Lock(name)
	*g.lock = c
	return c, err
}

// check does not return with an error of an open store.
func (g guard) check(err error) error {
	if err != nil && g.opened.Load() {
		g.fail(err)
		select {}
	}
	return err
}

func (g guard) wrap(f vfs.File, category vfs.DiskWriteCategory, err error) (vfs.File, error) {
	if category != logCategory {
		return f, err
	}
	if g.check(err) != nil {
		return nil, err
	}
	return guardedFile{f, g}, nil
}

// Create implements vfs.FS.
func (g guard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.Create(name, category)
	return g.wrap(f, category, err)
}

// ReuseForWrite implements vfs.FS.
func (g guard) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.ReuseForWrite(oldname, newname, category)
	return g.wrap(f, category, err)
}

// OpenDir implements vfs.FS: a new file of the log is synced with its directory.
func (g guard) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return guardedFile{f, g}, nil
}

// Unwrap returns the wrapped file system.
func (g guard) Unwrap() vfs.FS { return g.FS }

// guardedFile is a file of the log, or a directory.
type guardedFile struct {
	vfs.File
	guard
}

func (f guardedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.check(err)
}

func (f guardedFile) Sync() error     { return f.check(f.File.Sync()) }
func (f guardedFile) SyncData() error { return f.check(f.File.SyncData()) }
func (f guardedFile) Close() error    { return f.check(f.File.Close()) }
