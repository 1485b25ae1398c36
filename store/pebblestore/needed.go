package pebblestore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// neededLogs returns the log files that Pebble replays, the oldest first. The content of all other log files is in
// tables; a killed process did not remove them. Pebble has no other way to tell which files it needs. lock is the
// caller's lock of the directory, or nil.
func neededLogs(dir string, lock *pebble.Lock) (logs []string, err error) {
	files := &emptyLogs{FS: vfs.Default, empty: vfs.NewMem(), opened: map[string]bool{}}
	if f, err := files.empty.Create(emptyLog, vfs.WriteCategoryUnspecified); err != nil || f.Close() != nil {
		return nil, errors.Join(err, errors.New("an empty file could not be made"))
	}
	db, err := pebble.Open(dir, &pebble.Options{FS: files, ReadOnly: true, Merger: concatenate, Lock: lock, Logger: silent{}})
	if err != nil {
		return nil, unsound(err)
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	all, err := logsOf(dir)
	return slices.DeleteFunc(all, func(name string) bool { return !files.opened[name] }), err
}

// emptyLog is the file that is opened in place of each log.
const emptyLog = "empty"

// emptyLogs is a file system whose logs are all empty. It records which logs are opened.
type emptyLogs struct {
	vfs.FS
	empty  *vfs.MemFS
	opened map[string]bool
}

func (f *emptyLogs) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if filepath.Ext(name) != ".log" {
		return f.FS.Open(name, opts...)
	}
	f.opened[filepath.Base(name)] = true
	return f.empty.Open(emptyLog)
}

func (f *emptyLogs) Unwrap() vfs.FS { return f.FS }

// silent is a Pebble logger that discards all messages.
type silent struct{}

func (silent) Infof(string, ...any)              {}
func (silent) Errorf(string, ...any)             {}
func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
