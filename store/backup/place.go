package backup

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/dirs"
	"github.com/wfhost/wfhost/store/pebblestore"
)

const (
	// nameLayout is the layout of a backup's name, which is its time. Names sort like times.
	nameLayout = "20060102T150405.000Z"
	// partialName is the folder of a backup that is in progress, or was interrupted.
	partialName = "partial"
)

// Made describes a new backup.
type Made struct {
	Dir      string    `json:"dir"` // of the backup
	Manifest *Manifest `json:"-"`
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"` // of all files
	// NewFiles and NewBytes count the files that are not shared with the backup before.
	NewFiles int   `json:"new_files"`
	NewBytes int64 `json:"new_bytes"`
	// Notes are the faults of the backup before, each with the file that was not shared with it.
	Notes []string `json:"notes,omitempty"`
}

// CreateOptions says how Create makes a backup. The zero value is usable.
type CreateOptions struct {
	// Full sends all files again, and shares none with the backup before.
	Full bool
	// BytesPerSecond bounds how fast files of the backup before are read for checking; 0 = no bound.
	BytesPerSecond int64
}

// Create makes a backup in a place, which it creates if necessary. send gets the files that the place already has, and
// writes the stream of Write. The backup is durable when Create returns; after an error, there is none. Only one backup
// at a time can be made in a place: a second one gets store.ErrLocked. If the newest backup of the place cannot be
// used, the new one shares nothing with it, and Made.Notes has the reason.
func Create(ctx context.Context, place string, opts CreateOptions,
	send func(ctx context.Context, have []File, w io.Writer) error) (*Made, error) {
	if err := checkPlace(place); err != nil {
		return nil, err
	}
	if err := dirs.Make(place, dirMode); err != nil {
		return nil, err
	}
	lock, err := pebblestore.LockDir(place)
	if errors.Is(err, store.ErrLocked) {
		return nil, fmt.Errorf("%w: another backup is being made in %s", err, place)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Close() }() // the process ends soon
	partial := filepath.Join(place, partialName)
	if err := ownPartial(partial); err != nil {
		return nil, err
	}
	if err := errors.Join(os.RemoveAll(partial), os.Mkdir(partial, dirMode)); err != nil {
		return nil, err
	}
	before, err := Latest(place)
	if err != nil && !errors.Is(err, ErrNotBackup) {
		return nil, err
	}
	var have []File
	var notes []string
	if before != "" && !opts.Full {
		have, notes, err = reusable(ctx, before, opts.BytesPerSecond)
		if err != nil {
			return nil, err
		}
	}
	made, err := receive(ctx, partial, before, have, send)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(partial))
	}
	made.Notes, made.Dir = notes, filepath.Join(place, nameAfter(made.Manifest.Time, filepath.Base(before)))
	if err := os.Rename(partial, made.Dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(partial))
	}
	return made, dirs.Sync(place)
}

// ErrPlace: a folder cannot be a place for backups.
var ErrPlace = errors.New("no place for backups")

// checkPlace refuses a place that is not a local folder, and a folder with another use. An address of a bucket would
// create a folder "s3:", and backups do not belong among the files of a store.
func checkPlace(place string) error {
	if place == "" || strings.Contains(place, "://") {
		return fmt.Errorf("%w: the place must be a folder of this machine, which need not be there yet, got %q", ErrPlace, place)
	}
	what := ""
	switch _, err := os.Stat(filepath.Join(place, ManifestName)); {
	case err == nil:
		what = "a backup itself"
	case isStore(place):
		what = "the folder of a store"
	case isStore(filepath.Join(place, storeFolder)):
		what = "the folder of the data"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s is %s; give a folder for backups only, which need not be there yet", ErrPlace, place, what)
}

// isStore reports whether a folder holds a store, which always has a manifest of the database.
func isStore(dir string) bool {
	list, _ := os.ReadDir(dir) // an unreadable folder is not a store
	return slices.ContainsFunc(list, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), "MANIFEST-") })
}

// ownPartial refuses a folder with the name of an interrupted backup that holds other files: other programs also use
// that name.
func ownPartial(partial string) error {
	if _, err := os.Lstat(partial); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, dir := range []string{partial, filepath.Join(partial, storeFolder)} {
		list, err := os.ReadDir(dir)
		if err != nil && (dir == partial || !errors.Is(err, os.ErrNotExist)) {
			return foreign(partial, dir)
		}
		for _, e := range list {
			own := dir != partial && !e.IsDir() || e.Name() == storeFolder || strings.HasPrefix(e.Name(), ManifestName)
			if !own {
				return foreign(partial, filepath.Join(dir, e.Name()))
			}
		}
	}
	return nil
}

func foreign(partial, what string) error {
	return fmt.Errorf("%w: %s is nothing that a backup has left, since %s is there; a backup would remove it: move it, or give "+
		"another folder", ErrPlace, partial, what)
}

// nameAfter returns the name of a new backup: its time, or a later one if the clock was set back, since the newest
// backup must have the last name.
func nameAfter(at time.Time, before string) string {
	if last, err := time.Parse(nameLayout, before); err == nil && !at.Truncate(time.Millisecond).After(last) {
		at = last.Add(time.Millisecond)
	}
	return at.Format(nameLayout)
}

// receive writes the files of a stream into a directory, and adds the files that the stream leaves out from the backup
// before.
func receive(ctx context.Context, dir, before string, have []File,
	send func(context.Context, []File, io.Writer) error) (*Made, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, w := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := send(ctx, have, w)
		_ = w.CloseWithError(err) // always nil
		sent <- err
	}()
	made, err := extract(ctx, r, dir, before)
	cancel(err)
	_ = r.CloseWithError(err) // always nil
	if cause := <-sent; cause != nil && (err == nil || errors.Is(err, cause) || errors.Is(err, errCut)) {
		return nil, cause
	}
	return made, err
}

var errCut = fmt.Errorf("%w: the stream was cut before the end of its %s", ErrNotBackup, ManifestName)

// extract writes the files of a stream, and then the manifest.
func extract(ctx context.Context, r io.Reader, dir, before string) (*Made, error) {
	folder := filepath.Join(dir, storeFolder)
	if err := os.Mkdir(folder, dirMode); err != nil {
		return nil, err
	}
	got, made := map[string]File{}, &Made{}
	for in := tar.NewReader(r); made.Manifest == nil; {
		h, err := in.Next()
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return nil, errCut
		case errors.Is(err, tar.ErrHeader):
			return nil, fmt.Errorf("%w: it is no tar stream", ErrNotBackup)
		case err != nil:
			return nil, err
		case h.Name == ManifestName:
			made.Manifest, err = decodeManifest(in)
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = errCut
			}
			if err != nil {
				return nil, err
			}
			_, err = io.Copy(io.Discard, r) // so that the sender can finish
			if err != nil {
				return nil, err
			}
			continue
		}
		name, ok := strings.CutPrefix(h.Name, storeFolder+"/")
		if err := checkName(name); err != nil || !ok {
			return nil, fmt.Errorf("%w: it has a file named %q", ErrNotBackup, h.Name)
		}
		f := File{Name: name}
		f.Size, f.SHA256, err = write(ctx, filepath.Join(folder, name), in)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errCut
		}
		if err != nil {
			return nil, err
		}
		got[name] = f
		made.NewFiles, made.NewBytes = made.NewFiles+1, made.NewBytes+f.Size
	}
	if err := complete(ctx, folder, before, made.Manifest, got); err != nil {
		return nil, err
	}
	made.Files, made.Bytes = len(made.Manifest.Files), made.Manifest.Bytes()
	if err := dirs.Sync(folder); err != nil {
		return nil, err
	}
	return made, writeManifest(dir, made.Manifest)
}

// write writes a file durably, and returns its size and hash.
func write(ctx context.Context, path string, r io.Reader) (n int64, sum string, err error) {
	f, err := create(path)
	if err != nil {
		return 0, "", err
	}
	n, err = copyChunks(ctx, f, r, nil)
	sum, closed := f.finish()
	return n, sum, errors.Join(err, closed)
}

// complete compares the received files with the manifest, and takes the files that were left out from the backup
// before.
func complete(ctx context.Context, folder, before string, m *Manifest, got map[string]File) error {
	for i := range m.Files {
		f := &m.Files[i]
		g, ok := got[f.Name]
		delete(got, f.Name)
		switch {
		case ok && (g.Size != f.Size || g.SHA256 != f.SHA256):
			return fmt.Errorf("%w: %s has %d bytes with SHA-256 %s, the manifest says %d and %s", ErrDamaged, f.Name, g.Size,
				g.SHA256, f.Size, f.SHA256)
		case ok:
			continue
		case before == "":
			return fmt.Errorf("%w: the stream lacks %s; it was made for a place that has it", ErrNotBackup, f.Name)
		}
		if err := reuse(ctx, filepath.Join(before, storeFolder, f.Name), filepath.Join(folder, f.Name), *f); err != nil {
			return err
		}
	}
	for name := range got {
		return fmt.Errorf("%w: it has a file %s that the manifest does not name", ErrNotBackup, name)
	}
	return nil
}

// check compares the size and hash of a file with the manifest.
func (f File) check(n int64, sum string) error {
	switch {
	case n != f.Size:
		return fmt.Errorf("%w: %s has %d bytes, the manifest says %d", ErrDamaged, f.Name, n, f.Size)
	case sum != f.SHA256:
		return fmt.Errorf("%w: %s has the SHA-256 %s, the manifest says %s", ErrDamaged, f.Name, sum, f.SHA256)
	}
	return nil
}

// writeManifest turns a directory into a backup, durably. All other files in it are durable already.
func writeManifest(dir string, m *Manifest) error {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	next := filepath.Join(dir, ManifestName+".next")
	f, err := create(next)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if _, closed := f.finish(); err != nil || closed != nil {
		return errors.Join(err, closed)
	}
	if err := os.Rename(next, filepath.Join(dir, ManifestName)); err != nil {
		return err
	}
	return dirs.Sync(dir)
}

// Latest returns the newest backup of a place, ErrNotBackup if it has none.
func Latest(place string) (string, error) {
	list, err := List(place)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", fmt.Errorf("%w: %s holds none with a name such as %s; name one that was renamed by its own path", ErrNotBackup,
			place, nameLayout)
	}
	return list[len(list)-1], nil
}

// List returns the backups of a place, the oldest first: the folders with a name as Create gives them, and a manifest.
// A renamed backup no longer belongs to the place, but can still be restored and verified by its own path.
func List(place string) (dirs []string, err error) {
	list, err := os.ReadDir(place)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		if _, err := time.Parse(nameLayout, e.Name()); err != nil || !e.IsDir() {
			continue
		}
		dir := filepath.Join(place, e.Name())
		if _, err := os.Stat(filepath.Join(dir, ManifestName)); err == nil {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs, nil
}
