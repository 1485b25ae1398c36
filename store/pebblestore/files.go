package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/wfhost/wfhost/store"
)

// databaseVersion is Pebble's format for new databases. It is fixed here, and not Pebble's newest format, so that a new
// release of Pebble does not raise stores by itself: the wfhost release before could not read them any more. A database
// of an older format stays as it is until Upgrade.
const databaseVersion = pebble.FormatValueSeparation

// formatName is the file in a store's directory that holds the store's format number, as text. It repeats the format
// record, and can be read without opening the database, which changes files even if it is closed at once.
const formatName = "wfhost-format"

// maxFormatFile bounds the size of that file: more than a number and a newline.
const maxFormatFile = 32

// checkFiles refuses a store that a newer release has written, or that is damaged. It changes no file except the lock
// file. It returns the Pebble format to open the database with.
func checkFiles(files vfs.FS, dir string) (pebble.FormatMajorVersion, error) {
	if _, err := files.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return databaseVersion, nil
	}
	if _, err := peek(files, dir); err != nil { // a newer release has other files, and maybe another lock
		return 0, err
	}
	format, err := readFormat(files, dir)
	if err != nil {
		return 0, err
	}
	if format > store.FormatVersion {
		return 0, newerFormat(format)
	}
	found, torn, err := checkUnused(files, dir)
	if err != nil || !found.Exists {
		return databaseVersion, err
	}
	if format == 0 { // written by an earlier release, or a restore was interrupted
		format, err = recordedFormat(files, dir, found.FormatMajorVersion)
		if err != nil {
			return 0, err
		}
	}
	if format > store.FormatVersion {
		return 0, newerFormat(format)
	}
	if torn && format > 0 { // the list is not changed, and so not torn, before a new store has its format record
		recorded, err := recordedFormat(files, dir, found.FormatMajorVersion)
		if err == nil && recorded == 0 {
			err = damaged("%s is damaged at its end, and lists nothing of the store any more", filepath.Base(found.ManifestFilename))
		}
		if err != nil {
			return 0, err
		}
	}
	return found.FormatMajorVersion, nil
}

// peek looks at a database without opening it.
func peek(files vfs.FS, dir string) (*pebble.DBDesc, error) {
	found, err := pebble.Peek(dir, files)
	if err != nil && strings.Contains(err.Error(), "unknown format major version") {
		return nil, fmt.Errorf("%w: %w", store.ErrVersion, err)
	}
	return found, err
}

// checkUnused checks the records of a database while it holds the database's lock: a log that is read while it is
// written looks damaged. The error is store.ErrLocked if a process has the database open.
func checkUnused(files vfs.FS, dir string) (found *pebble.DBDesc, torn bool, err error) {
	lock, err := pebble.LockDirectory(dir, files)
	if err != nil {
		return nil, false, locked(err)
	}
	found, err = peek(files, dir)
	if err == nil {
		torn, err = checkRecords(files, dir, found)
	}
	return found, torn, errors.Join(err, lock.Close())
}

// formatMarker is Pebble's name of the marker with its format.
const formatMarker = "format-version"

// placeFormat writes the format marker of a database before Pebble creates it. Pebble itself would create the database
// in its oldest format and then raise it, and the first log would not record what is durable: see checkRecords.
func placeFormat(dir string, o *pebble.Options) error {
	list, err := o.FS.List(dir)
	if errors.Is(err, fs.ErrNotExist) || o.ReadOnly {
		return nil
	}
	if err != nil || slices.ContainsFunc(list, isPebbles) {
		return err
	}
	m, _, err := atomicfs.LocateMarkerInListing(o.FS, dir, formatMarker, list)
	if err != nil {
		return err
	}
	return errors.Join(m.Move(o.FormatMajorVersion.String()), m.Close())
}

// isPebbles reports whether a file shows that there is a database, or that one was being created.
func isPebbles(name string) bool {
	return strings.HasPrefix(name, markers) || strings.HasPrefix(name, "MANIFEST-")
}

// newerFormat returns the error for a store whose format this release does not know.
func newerFormat(format int) error {
	return fmt.Errorf("%w: the store has format %d, this release knows formats up to %d; nothing of it was changed",
		store.ErrVersion, format, store.FormatVersion)
}

// readFormat reads the format file. It returns 0 if the file does not exist or holds no number.
func readFormat(files vfs.FS, dir string) (int, error) {
	f, err := files.Open(files.PathJoin(dir, formatName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFormatFile))
	err = errors.Join(err, f.Close())
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", formatName, err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 1 {
		return 0, nil //nolint:nilerr // it was being written: the format record has the number
	}
	return n, nil
}

// recordedFormat reads the format record of a database, which it opens read-only. It returns 0 if there is none.
func recordedFormat(files vfs.FS, dir string, version pebble.FormatMajorVersion) (int, error) {
	s, err := openDB(dir, Options{FS: files, ReadOnly: true}, version)
	if err != nil {
		return 0, err
	}
	defer lockFiles.remove(s)
	v, err := s.get(formatKey)
	err = errors.Join(err, s.db.Close())
	if err != nil || len(v) == 0 {
		return 0, err
	}
	return int(v[0]), nil
}

// raiseFiles writes the format of this release into the format file, before any record of this format is written into
// the database.
func (s *Store) raiseFiles() error {
	if n, err := readFormat(s.fs, s.dir); err != nil || n == store.FormatVersion {
		return err
	}
	name, next := s.fs.PathJoin(s.dir, formatName), s.fs.PathJoin(s.dir, formatName+".next")
	f, err := s.fs.Create(next, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, store.FormatVersion)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		return err
	}
	if err := s.fs.Rename(next, name); err != nil {
		return err
	}
	d, err := s.fs.OpenDir(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Upgrade raises the database of a closed store to the newest Pebble format that this release writes, and returns the
// format before and after. Earlier releases may not be able to open the store afterwards. Only Upgrade raises it.
func Upgrade(dir string, opts Options) (before, after int, err error) {
	s, err := Open(dir, opts)
	if err != nil {
		return 0, 0, err
	}
	before = int(s.db.FormatMajorVersion())
	if before < int(databaseVersion) {
		err = s.db.RatchetFormatMajorVersion(databaseVersion)
	}
	after = int(s.db.FormatMajorVersion())
	return before, after, errors.Join(err, s.Close())
}

// CheckFormat returns store.ErrVersion if a newer release has written the store in a directory, and changes nothing.
func CheckFormat(dir string) error {
	_, err := checkFiles(vfs.Default, dir)
	return err
}
