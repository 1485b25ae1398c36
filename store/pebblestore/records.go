package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore/logfs"
)

// checkRecords returns store.ErrCorrupt if Pebble would open the database without some durable data: if there are
// tables or logs, but not the marker that names the list of tables, or if that list or the newest log is damaged before
// its end. Pebble takes all of this for the traces of a power cut, and removes tables that are no longer listed. It
// checks older logs itself. torn reports whether the list ends within a record, as a power cut may leave it.
func checkRecords(files vfs.FS, dir string, found *pebble.DBDesc) (torn bool, err error) {
	list, err := files.List(dir)
	if err != nil {
		return false, err
	}
	log, number, content := "", uint64(0), ""
	for _, name := range list {
		base, ext, _ := strings.Cut(name, ".")
		n, err := strconv.ParseUint(base, 10, 64)
		if err != nil { // a file of another program
			continue
		}
		switch ext {
		case "log":
			content = name
			if n >= number {
				log, number = name, n
			}
		case "sst", "blob":
			content = name
		}
	}
	if !found.Exists {
		if content == "" {
			return false, nil
		}
		return false, damaged("the empty file marker.manifest.… is missing, which names the list of its tables, and there is %s",
			content)
	}
	torn, err = checkRecordsOf(files, dir, filepath.Base(found.ManifestFilename), 0)
	if err != nil || log == "" {
		return torn, err
	}
	_, err = checkRecordsOf(files, dir, log, uint32(number))
	return torn, err
}

// damaged returns a store.ErrCorrupt about the whole store, with advice.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s; nothing was changed: restore a backup", store.ErrCorrupt, fmt.Sprintf(format, args...))
}

// damagedLog returns a store.ErrCorrupt about a log that is damaged at an offset. This is the only damage that can be
// cut: see AcceptLoss.
func damagedLog(name string, offset int) error {
	return fmt.Errorf("%w: %s is damaged at byte %d, and what was written later says that this was durable; nothing was changed: "+
		"restore a backup; without one, wfhost verify DATA --accept-loss-after %s:%d says what would be lost",
		store.ErrCorrupt, name, offset, name, offset)
}

// unsound turns a Pebble error about a damaged or missing file into store.ErrCorrupt, in one line with advice. It
// returns other errors unchanged.
func unsound(err error) error {
	if err == nil || !pebble.IsCorruptionError(err) && !errors.Is(err, pebble.ErrDBNotPristine) && !errors.Is(err, fs.ErrNotExist) &&
		!strings.Contains(err.Error(), sizeMismatch) {
		return err
	}
	line := strings.TrimPrefix(firstLine(err), store.ErrCorrupt.Error()+": ")
	return fmt.Errorf("%w: %s; restore a backup", store.ErrCorrupt, line)
}

// sizeMismatch is part of Pebble's error for a table whose size differs from the listed one. Pebble does not mark that
// error in any other way.
const sizeMismatch = "object size mismatch"

// firstLine returns the text of an error without the stack that Pebble writes below it.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// checkRecordsOf checks one file. It ignores a missing file, which Pebble itself refuses.
func checkRecordsOf(files vfs.FS, dir, name string, number uint32) (torn bool, err error) {
	f, err := files.Open(files.PathJoin(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	b, err := io.ReadAll(f)
	err = errors.Join(err, f.Close())
	if err != nil {
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	end, is := logfs.Damaged(b, number)
	if is && number != 0 {
		return false, damagedLog(name, end)
	}
	if is {
		return false, damaged("%s is damaged at byte %d, and what was written later says that this was durable", name, end)
	}
	return end < len(b), nil
}
