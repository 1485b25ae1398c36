package pebblestore

import (
	"errors"
	"strings"
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

// markers is what the names of files begin with by which Pebble says which of its files count.
const markers = "marker."

// Create implements vfs.FS. Pebble makes a marker right after the file that it names: where a power cut may leave the one in the
// directory without the other, which POSIX allows, the database would not open. Usual file systems keep the order.
func (g guard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(g.PathBase(name), markers) {
		if err := g.syncDir(g.PathDir(name)); err != nil {
			return nil, err
		}
	}
	f, err := g.FS.Create(name, category)
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
