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
	"github.com/wfhost/wfhost/store/pebblestore"
)

const (
	// nameLayout is how a backup is named after its time, so that names sort as times do.
	nameLayout = "20060102T150405.000Z"
	// partialName is the folder of a backup that is being made, or was cut.
	partialName = "partial"
)

// Made says what a backup has written.
type Made struct {
	Dir      string    `json:"dir"` // of the backup
	Manifest *Manifest `json:"-"`
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"` // of all files
	// NewFiles and NewBytes are what the backup before did not have.
	NewFiles int   `json:"new_files"`
	NewBytes int64 `json:"new_bytes"`
}

// Create makes a backup in a place, which it creates if need be. send is given the files that the place has already, and writes
// the stream of Write. The backup is durable when Create returns; after an error, there is none. Only one backup at a time is
// made in a place: another one is store.ErrLocked.
func Create(ctx context.Context, place string, send func(ctx context.Context, have []File, w io.Writer) error) (*Made, error) {
	if err := os.MkdirAll(place, dirMode); err != nil {
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
	if err := errors.Join(os.RemoveAll(partial), os.Mkdir(partial, dirMode)); err != nil {
		return nil, err
	}
	before, err := Latest(place)
	if errors.Is(err, ErrNotBackup) {
		before, err = "", nil // the first one, or one of another release
	}
	var have []File
	if err == nil && before != "" {
		var m *Manifest
		if m, err = ReadManifest(before); err == nil {
			have = there(before, m)
		}
	}
	if err != nil {
		return nil, err
	}
	made, err := receive(ctx, partial, before, have, send)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(partial))
	}
	made.Dir = filepath.Join(place, nameAfter(made.Manifest.Time, filepath.Base(before)))
	if err := os.Rename(partial, made.Dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(partial))
	}
	return made, syncDir(place)
}

// nameAfter names a backup after its time, or, should the clock have been set back, after the backup before: the newest one is
// that with the last name.
func nameAfter(at time.Time, before string) string {
	if last, err := time.Parse(nameLayout, before); err == nil && !at.Truncate(time.Millisecond).After(last) {
		at = last.Add(time.Millisecond)
	}
	return at.Format(nameLayout)
}

// there returns the files of a backup that have the size they should have.
func there(dir string, m *Manifest) (have []File) {
	for _, f := range m.Files {
		if info, err := os.Stat(filepath.Join(dir, storeFolder, f.Name)); err == nil && info.Size() == f.Size && isTable(f.Name) {
			have = append(have, f)
		}
	}
	return have
}

// receive writes the files of a stream into a directory, with those of the backup before that it leaves out.
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
	if cause := <-sent; cause != nil && (err == nil || errors.Is(err, cause)) {
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
			_, err = io.Copy(io.Discard, r) // so that who sends comes to the end
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
		if f.Size, f.SHA256, err = write(ctx, filepath.Join(folder, name), in); errors.Is(err, io.ErrUnexpectedEOF) {
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
	if err := syncDir(folder); err != nil {
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

// complete compares what was received with the manifest, and takes from the backup before what was left out.
func complete(ctx context.Context, folder, before string, m *Manifest, got map[string]File) error {
	for _, f := range m.Files {
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
		if err := reuse(ctx, filepath.Join(before, storeFolder, f.Name), filepath.Join(folder, f.Name), f); err != nil {
			return err
		}
	}
	for name := range got {
		return fmt.Errorf("%w: it has a file %s that the manifest does not name", ErrNotBackup, name)
	}
	return nil
}

// reuse makes a file of the backup before one of this backup: a hard link, or a copy where there are no links.
func reuse(ctx context.Context, from, to string, f File) error {
	if os.Link(from, to) == nil {
		return nil
	}
	return copyFile(ctx, from, to, f)
}

// copyFile copies a file of a backup durably, and checks it.
func copyFile(ctx context.Context, from, to string, f File) error {
	r, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing", ErrDamaged, f.Name)
	}
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was read
	n, sum, err := write(ctx, to, r)
	if err != nil {
		return err
	}
	return f.check(n, sum)
}

// check compares a file with what the manifest says of it.
func (f File) check(n int64, sum string) error {
	switch {
	case n != f.Size:
		return fmt.Errorf("%w: %s has %d bytes, the manifest says %d", ErrDamaged, f.Name, n, f.Size)
	case sum != f.SHA256:
		return fmt.Errorf("%w: %s has the SHA-256 %s, the manifest says %s", ErrDamaged, f.Name, sum, f.SHA256)
	}
	return nil
}

// writeManifest makes a directory a backup, durably: everything else in it is durable.
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
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Latest returns the newest backup of a place, ErrNotBackup if it has none.
func Latest(place string) (string, error) {
	list, err := List(place)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", fmt.Errorf("%w: %s holds none", ErrNotBackup, place)
	}
	return list[len(list)-1], nil
}

// List returns the backups of a place, the oldest first.
func List(place string) (dirs []string, err error) {
	list, err := os.ReadDir(place)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		dir := filepath.Join(place, e.Name())
		if _, err := os.Stat(filepath.Join(dir, ManifestName)); err == nil && e.IsDir() && e.Name() != partialName {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs, nil
}
