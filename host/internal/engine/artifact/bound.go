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

// The modification time of a file in the cache is when it was last used.

// used notes that a file was used. A failure costs that the file may be removed before others.
func used(path string) { _ = os.Chtimes(path, time.Time{}, clock.System().Now()) }

// Forget removes the artifact of a name. Its code may be that of other modules, so it stays for as long as there is room, and is
// the first to be removed by Bound unless another module uses it. A module that is being loaded is compiled again.
func (f Folder) Forget(name string) error {
	path := filepath.Join(string(f), modules, name)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if a, err := Decode(b); err == nil {
		_ = os.Chtimes(a.path(string(f)), time.Time{}, time.Unix(0, 0)) // else it counts as used when it was last loaded
	}
	return errors.Join(err, os.Remove(path))
}

// cached is a file of the cache.
type cached struct {
	path  string
	bytes int64
	used  time.Time
}

// Bound looks at all files and, if they take more than most bytes, removes those that were used longest ago until they take at
// most least. It does not touch folders in which modules are being compiled. A module whose file is removed is compiled again
// when it is next loaded. It returns how many bytes the files have then.
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
		if gone == nil && info.ModTime().After(c.used) { // somebody uses it at the moment
			continue
		}
		if e := os.Remove(c.path); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
			continue
		}
		total -= c.bytes
	}
	return total, err
}

// list returns the files of the cache, and how many bytes they have.
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
			if e != nil || !info.Mode().IsRegular() { // it is gone, or nothing of a cache
				continue
			}
			all = append(all, cached{filepath.Join(dir, file.Name()), info.Size(), info.ModTime()})
			total += info.Size()
		}
	}
	return all, total, err
}
