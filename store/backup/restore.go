package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/time/rate"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/dirs"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// RestoreName is the folder of a data directory into which a backup is restored. If it exists, the restore was
// interrupted, and the data must not be used.
const RestoreName = "restore.partial"

// Find returns the backup at a path: the path itself if it is a backup, or the newest backup of a place.
func Find(path string) (string, error) {
	if _, err := os.Stat(filepath.Join(path, ManifestName)); err == nil {
		return path, nil
	}
	return Latest(path)
}

// Restore creates a data directory with the store of a backup, durable on return. The directory must be empty or
// missing. from is a backup, a place, whose newest backup is taken, or a file with a stream. Each file is checked. With
// asCopy, the store refuses every change until it is released: see pebblestore.Store.MarkCopy. It returns the path and
// manifest of the backup.
func Restore(ctx context.Context, from, data string, asCopy bool) (dir string, m *Manifest, err error) {
	info, err := os.Stat(from)
	if err != nil {
		return "", nil, err
	}
	if !info.IsDir() {
		f, err := os.Open(from)
		if err != nil {
			return "", nil, err
		}
		defer func() { _ = f.Close() }() // it was read
		m, err := RestoreStream(ctx, f, data, asCopy)
		return from, m, err
	}
	dir, err = Find(from)
	if err != nil {
		return "", nil, err
	}
	m, err = ReadManifest(dir)
	if err != nil {
		return "", nil, err
	}
	return dir, m, restore(data, asCopy, func(into string) error {
		folder := filepath.Join(into, storeFolder)
		if err := os.Mkdir(folder, dirMode); err != nil {
			return err
		}
		for _, f := range m.Files {
			if err := copyFile(ctx, filepath.Join(dir, storeFolder, f.Name), filepath.Join(folder, f.Name), f); err != nil {
				return err
			}
		}
		return dirs.Sync(folder)
	})
}

// RestoreStream is Restore from a stream.
func RestoreStream(ctx context.Context, r io.Reader, data string, asCopy bool) (m *Manifest, err error) {
	err = restore(data, asCopy, func(into string) error {
		made, err := extract(ctx, r, into, "")
		if err == nil {
			m = made.Manifest
		}
		return err
	})
	return m, err
}

// restore creates the store of a data directory: fill fills a folder with a backup, and a rename then puts the store
// in its place.
func restore(data string, asCopy bool, fill func(into string) error) (err error) {
	list, err := os.ReadDir(data)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(list) > 0 {
		return fmt.Errorf("%s is not empty: it has %s; a backup is restored into an empty directory, or a new one", data,
			list[0].Name())
	}
	into := filepath.Join(data, RestoreName)
	if err := dirs.Make(into, dirMode); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(into))
		}
	}()
	if err := fill(into); err != nil {
		return err
	}
	if asCopy {
		if err := markCopy(filepath.Join(into, storeFolder)); err != nil {
			return err
		}
	}
	if err := os.Rename(filepath.Join(into, storeFolder), filepath.Join(data, storeFolder)); err != nil {
		return err
	}
	if err := dirs.Sync(data); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(into), dirs.Sync(data))
}

func markCopy(dir string) error {
	s, err := pebblestore.Open(dir, pebblestore.Options{})
	if err != nil {
		return err
	}
	return errors.Join(s.MarkCopy(), s.Close())
}

// Check compares the files of a backup with its manifest. It returns the differences, nothing if the backup is whole.
// It does not check the store in it: see Link.
func Check(ctx context.Context, dir string) (wrong []error, err error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range m.Files {
		err := checkFile(ctx, filepath.Join(dir, storeFolder, f.Name), f, nil)
		if errors.Is(err, ErrDamaged) {
			wrong = append(wrong, err)
		} else if err != nil {
			return wrong, err
		}
	}
	list, err := os.ReadDir(filepath.Join(dir, storeFolder))
	for _, e := range list {
		if !slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == e.Name() }) {
			wrong = append(wrong, fmt.Errorf("%w: %s is not in the manifest", ErrDamaged, e.Name()))
		}
	}
	return wrong, err
}

func checkFile(ctx context.Context, path string, f File, limit *rate.Limiter) error {
	r, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing", ErrDamaged, f.Name)
	}
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was read
	sum := newSum()
	n, err := copyChunks(ctx, sum, r, limit)
	if err != nil {
		return err
	}
	return f.check(n, sum.text())
}

// Unfinished returns an error if a restore into a data directory was interrupted.
func Unfinished(data string) error {
	if _, err := os.Stat(filepath.Join(data, RestoreName)); err != nil {
		return nil //nolint:nilerr // the folder does not exist, or cannot
	}
	if _, err := os.Stat(filepath.Join(data, storeFolder)); err == nil {
		return nil // only the cleanup is missing
	}
	return &unfinished{data}
}

// unfinished is the store.ErrCorrupt of an interrupted restore.
type unfinished struct{ data string }

// Error says what to do.
func (u *unfinished) Error() string {
	return fmt.Sprintf("a restore into %s was cut: delete what is in it, and restore again", u.data)
}

// Unwrap returns store.ErrCorrupt.
func (u *unfinished) Unwrap() error { return store.ErrCorrupt }

// Link makes a readable directory with the files of a backup's store: hard links, or copies if links are not supported.
// It is beside the backup, or among the temporary files if the folder of the backup is not writable. remove removes it.
func Link(ctx context.Context, dir string) (path string, remove func() error, err error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return "", nil, err
	}
	path, err = os.MkdirTemp(filepath.Dir(dir), ".verify-")
	if err != nil {
		path, err = os.MkdirTemp("", "wfhost-verify-")
		if err != nil {
			return "", nil, err
		}
	}
	remove = func() error { return os.RemoveAll(path) }
	for _, f := range m.Files {
		if err := reuse(ctx, filepath.Join(dir, storeFolder, f.Name), filepath.Join(path, f.Name), f); err != nil {
			return "", nil, errors.Join(err, remove())
		}
	}
	return path, remove, nil
}
