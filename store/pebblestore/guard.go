package pebblestore

import (
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard is a file system that never answers Pebble with an error by which it would panic, and so end the process: the store
// fails, all that wait are told, and the goroutine that met the error stays where it is, as one does that meets a fatal error.
// These are:
//
//   - errors of the write-ahead log. Pebble changes from one file of the log to the next with a lock that its own recovery
//     unlocks once more; and a commit that comes after a failed fsync panics, too;
//   - errors of fsyncs of directories, with which Pebble moves its markers;
//   - errors of anything that is written while the database is opened: Pebble closes its cache of tables then, into which
//     another goroutine is about to read those that it has just written.
//
// A store that has failed while it was opened touches nothing any more, since somebody else may open it.
type guard struct {
	vfs.FS
	s *Store
}

// check does not return with an error of the log, or of what is written while the database is opened.
func (g guard) check(err error, isLog bool) error {
	if err != nil && (isLog || !g.s.opened.Load()) {
		g.stop(err)
	}
	return err
}

// stop has the store fail, and does not return.
func (g guard) stop(err error) {
	g.s.fail(err)
	select {}
}

// usable does not return if the store has failed while it was opened.
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

// markers is what the names of files begin with by which Pebble says which of its files count.
const markers = "marker."

// Create implements vfs.FS. Pebble makes a marker right after the file that it names: where a power cut may leave the one in the
// directory without the other, which POSIX allows, the database would not open. Usual file systems keep the order.
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

// syncDir makes durable which files a directory has.
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

// OpenDir implements vfs.FS: a directory is synced when there is a new file in it.
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

// guardedFile is a file that is written.
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
