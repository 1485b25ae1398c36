package pebblestore

import (
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard is a file system that hides errors from Pebble that would make it panic and so end the process. Instead the
// store fails, all waiting callers get the error, and the goroutine that met it is parked, as after a fatal error.
// These errors are:
//
//   - errors of the write-ahead log. Pebble rotates the log under a lock that its own recovery unlocks a second time, and
//     a commit after a failed fsync panics, too;
//   - errors of the directory fsyncs by which Pebble moves its markers;
//   - errors of any write while the database is opened: Pebble then closes its table cache, while another goroutine is
//     about to load newly written tables into it.
//
// A store that failed while it was opened touches no files any more, since another process or caller may open it.
type guard struct {
	vfs.FS
	s *Store
}

// check does not return if there is an error of the log, or of a write while the database is opened.
func (g guard) check(err error, isLog bool) error {
	if err != nil && (isLog || !g.s.opened.Load()) {
		g.stop(err)
	}
	return err
}

// stop fails the store, and does not return.
func (g guard) stop(err error) {
	g.s.fail(err)
	select {}
}

// usable does not return if the store failed while it was opened.
func (g guard) usable() {
	select {
	case <-g.s.failed:
		if !g.s.opened.Load() {
			select {}
		}
	default:
	}
}

func (g guard) wrap(f vfs.File, category vfs.DiskWriteCategory, err error) (vfs.File, error) {
	isLog := category == logCategory
	if err := g.check(err, isLog); err != nil {
		return nil, err
	}
	return guardedFile{f, g, isLog}, nil
}

// markers is the prefix of Pebble's marker files, whose names say which of its files are current.
const markers = "marker."

// Create implements vfs.FS. Before it creates a marker, it syncs the directory. Pebble makes a marker right after the
// file that it names; if a power cut kept the marker without the file, which POSIX allows, the database would not open.
// Usual file systems keep the order.
func (g guard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	g.usable()
	if strings.HasPrefix(g.PathBase(name), markers) {
		if err := g.syncDir(g.PathDir(name)); err != nil {
			if g.s.inCheckpoint(name) {
				return nil, err
			}
			return nil, g.check(err, false)
		}
	}
	f, err := g.FS.Create(name, category)
	if g.s.inCheckpoint(name) {
		return f, err
	}
	return g.wrap(f, category, err)
}

// syncDir makes the directory's list of files durable.
func (g guard) syncDir(dir string) error {
	d, err := g.FS.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ReuseForWrite implements vfs.FS.
func (g guard) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	g.usable()
	f, err := g.FS.ReuseForWrite(oldname, newname, category)
	return g.wrap(f, category, err)
}

// OpenDir implements vfs.FS. A directory is synced when it has a new file.
func (g guard) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil || g.s.inCheckpoint(name) {
		return f, err
	}
	return guardedDir{f, g}, nil
}

// Remove implements vfs.FS.
func (g guard) Remove(name string) error {
	g.usable()
	err := g.FS.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return g.check(err, false)
}

// Rename implements vfs.FS.
func (g guard) Rename(oldname, newname string) error {
	g.usable()
	return g.check(g.FS.Rename(oldname, newname), false)
}

// List implements vfs.FS.
func (g guard) List(dir string) ([]string, error) {
	list, err := g.FS.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return list, err
	}
	return list, g.check(err, false)
}

// Lock implements vfs.FS.
func (g guard) Lock(name string) (io.Closer, error) {
	c, err := g.FS.Lock(name)
	if err == nil {
		g.s.lock = c
	}
	return c, err
}

// Unwrap returns the wrapped file system.
func (g guard) Unwrap() vfs.FS { return g.FS }

// guardedFile is a file opened for writing.
type guardedFile struct {
	vfs.File
	guard
	isLog bool
}

func (f guardedFile) Write(p []byte) (int, error) {
	f.usable()
	n, err := f.File.Write(p)
	return n, f.check(err, f.isLog)
}

func (f guardedFile) Sync() error     { return f.check(f.File.Sync(), f.isLog) }
func (f guardedFile) SyncData() error { return f.check(f.File.SyncData(), f.isLog) }
func (f guardedFile) Close() error    { return f.check(f.File.Close(), f.isLog) }

// guardedDir is a directory.
type guardedDir struct {
	vfs.File
	guard
}

func (d guardedDir) Sync() error {
	if err := d.File.Sync(); err != nil {
		d.stop(err)
	}
	return nil
}

func (d guardedDir) Close() error { return d.check(d.File.Close(), true) }
