package pebblestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// Inspection is what Inspect finds out about a store without opening it.
type Inspection struct {
	Exists   bool
	Format   int  // of the store; 0 if unknown: an earlier release, which wrote no format file, has it open
	Database int  // of Pebble
	Open     bool // a process has it open, if the system can tell
	Holder   int  // its process id, 0 if unknown
}

// Inspect inspects the store in a directory, even while a process has it open, and changes nothing. store.ErrVersion if
// this release cannot open the store, store.ErrCorrupt if no release can.
func Inspect(dir string) (l Inspection, err error) {
	found, err := pebble.Peek(dir, vfs.Default)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l, nil
	case err != nil && strings.Contains(err.Error(), "unknown format major version"):
		return Inspection{Exists: true}, fmt.Errorf("%w: %w", store.ErrVersion, err)
	case err != nil:
		return l, err
	}
	l.Holder, l.Open, err = holderOf(dir)
	if err != nil {
		return l, err
	}
	if !l.Open { // a log that is being written may end anywhere
		if _, damage := checkRecords(vfs.Default, dir, found); damage != nil {
			l.Exists = true
			l.Holder, l.Open, err = holderOf(dir)
			if err != nil || !l.Open { // the store was not opened meanwhile
				return l, errors.Join(err, damage)
			}
		}
	}
	if !found.Exists {
		return l, nil
	}
	l.Exists, l.Database = true, int(found.FormatMajorVersion)
	l.Format, err = readFormat(vfs.Default, dir)
	if err != nil {
		return l, err
	}
	if l.Format == 0 && !l.Open {
		l.Format, err = recordedFormat(vfs.Default, dir, found.FormatMajorVersion)
		if err != nil {
			return l, locked(err)
		}
	}
	if l.Format > store.FormatVersion {
		return l, newerFormat(l.Format)
	}
	return l, nil
}

// holderOf returns the process that has a store open, like lockHolder, and whether there is one.
func holderOf(dir string) (pid int, held bool, err error) {
	lock := filepath.Join(dir, lockName)
	if lockFiles.has(lock) {
		return os.Getpid(), true, nil
	}
	return lockHolder(lock)
}

// lockName is the file in a store's directory that Pebble locks.
const lockName = "LOCK"

// lockRegistry holds the lock files of the stores that this process has open. POSIX releases a process's locks of a
// file as soon as the process closes any descriptor of the file, so these files must never be opened for inspection.
type lockRegistry struct {
	mu sync.Mutex
	of map[*Store]os.FileInfo
}

var lockFiles = lockRegistry{of: map[*Store]os.FileInfo{}}

func (h *lockRegistry) add(s *Store) {
	info, err := os.Stat(filepath.Join(s.dir, lockName))
	if err != nil { // it was just created
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of[s] = info
}

func (h *lockRegistry) remove(s *Store) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.of, s)
}

// has reports whether this process has a store open whose lock file is path.
func (h *lockRegistry) has(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, own := range h.of {
		if os.SameFile(own, info) {
			return true
		}
	}
	return false
}

// DiskOf returns the disk space of a directory.
func DiskOf(dir string) (store.Disk, error) {
	usage, err := vfs.Default.GetDiskUsage(dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		err = errors.ErrUnsupported
	}
	if err != nil {
		return store.Disk{}, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return store.Disk{Path: dir, Free: usage.AvailBytes, Total: usage.TotalBytes}, nil
}
