package artifact

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

// The modification time of a file in the cache is the time of its last use.

// used records that a file was used. If that fails, the file may be evicted too early.
func used(path string) { _ = os.Chtimes(path, time.Time{}, clock.System().Now()) }

// Forget removes an artifact. Its code may belong to other modules, so the code stays while there is room, and is the
// first that Bound removes unless another module uses it. A module that is being loaded at the time is compiled
// again.
func (f Folder) Forget(name string) error {
	path := filepath.Join(string(f), modules, name)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if a, err := Decode(b); err == nil {
		_ = os.Chtimes(a.path(string(f)), time.Time{}, time.Unix(0, 0)) // otherwise it counts as used when it was last loaded
	}
	return errors.Join(err, os.Remove(path))
}

// cached is a file of the cache.
type cached struct {
	path  string
	bytes int64
	used  time.Time
}

// Bound scans all files and, if they take more than most bytes, removes the least recently used ones until they take
// at most least. It does not touch folders of compilations in progress. A module whose file is removed is compiled
// again when it is next loaded. It returns the bytes of the remaining files. Files that cannot be removed, as those that another
// process reads on Windows, are an error if the rest takes more than most.
func (f Folder) Bound(most, least int64) (bytes int64, err error) {
	all, total, err := f.list()
	if total <= most {
		return total, err
	}
	slices.SortFunc(all, func(a, b cached) int { return a.used.Compare(b.used) })
	for _, c := range all {
		if total <= least {
			break
		}
		info, gone := os.Stat(c.path)
		if gone == nil && info.ModTime().After(c.used) { // used just now
			continue
		}
		if e := os.Remove(c.path); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
			continue
		}
		total -= c.bytes
	}
	if total <= most {
		return total, nil
	}
	return total, err
}

// list returns the files of the cache and their total size.
func (f Folder) list() (all []cached, total int64, err error) {
	folders, err := os.ReadDir(string(f))
	for _, d := range folders {
		if !d.IsDir() || strings.HasPrefix(d.Name(), scratch) {
			continue
		}
		dir := filepath.Join(string(f), d.Name())
		files, e := os.ReadDir(dir)
		err = errors.Join(err, e)
		for _, file := range files {
			info, e := file.Info()
			if e != nil || !info.Mode().IsRegular() { // gone, or not a file of the cache
				continue
			}
			all = append(all, cached{filepath.Join(dir, file.Name()), info.Size(), info.ModTime()})
			total += info.Size()
		}
	}
	return all, total, err
}
