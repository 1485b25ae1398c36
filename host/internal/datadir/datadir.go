// Package datadir checks the folders of a host before it trusts anything in them, and reports whether there is room on
// their disk.
//
// A user who can write into the data folder can replace its contents; a user who can read the store can read all
// payloads; and the host executes the code in the cache.
package datadir

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/wfhost/wfhost/store/dirs"
)

// Modes of folders.
const (
	mode       = 0o700 // keeps other users of the machine out
	groupWrite = 0o020
	anyWrite   = 0o002
	notOwner   = 0o077
)

// CheckData makes the folder that holds the store and the cache, or checks it. It refuses a folder into which every user can
// write. If the group can write, Data takes that permission away and logs it. Other users may list the folder: the
// store and the cache are private themselves.
func CheckData(dir string, log *slog.Logger) error {
	if err := dirs.Make(dir, mode); err != nil {
		return fmt.Errorf("create data directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("check data directory: %w", err)
	}
	return narrow("data directory", dir, info, groupWrite, log)
}

// CheckStore makes the folder that holds the store, or checks it. It makes a folder private that other users could read, and logs
// that, as they may have read payloads. It refuses a folder into which every user can write, and a link that another user made.
func CheckStore(dir string, log *slog.Logger) error {
	info, err := own("store", dir, os.Geteuid())
	if err != nil {
		return err
	}
	return narrow("store", dir, info, notOwner, log)
}

// CheckCache makes the folder that holds compiled modules, or checks it. The folder must have mode 0700 and belong to the
// user of this process, and so must a link to it.
func CheckCache(dir string) error { return cache(dir, os.Geteuid()) }

func cache(dir string, self int) error {
	const what = "compilation cache"
	info, err := own(what, dir, self)
	if err != nil {
		return err
	}
	if modes && info.Mode().Perm()&notOwner != 0 {
		return fmt.Errorf("%s %s has mode %04o; others could put code into it: make it 0700, or delete it", what, dir,
			info.Mode().Perm())
	}
	if uid, ok := owner(info); ok && uid != self {
		return fmt.Errorf("%s %s belongs to user %d, and this process is user %d, who would execute the code in it: delete it", what,
			dir, uid, self)
	}
	return nil
}

// CheckAbove checks the folders above a folder, as far as there are any: each must belong to root or the user of this process,
// and nobody else may write to it. A folder with the sticky bit, such as /tmp, may be writable if the one below it exists.
func CheckAbove(dir string) error { return above(dir, os.Geteuid()) }

func above(dir string, self int) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	lowest := "" // that exists
	for at, up := dir, filepath.Dir(dir); up != at; at, up = up, filepath.Dir(up) {
		info, err := os.Stat(up)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("check the folders above %s: %w", dir, err)
		}
		missing := lowest == "" && up != filepath.Dir(dir)
		if lowest == "" {
			lowest = up
		}
		if uid, ok := owner(info); ok && uid != self && uid != 0 {
			return fmt.Errorf("%s belongs to user %d, who could replace %s", up, uid, dir)
		}
		sticky := info.Mode()&os.ModeSticky != 0 && !missing
		if modes && info.Mode()&(groupWrite|anyWrite) != 0 && !sticky {
			return fmt.Errorf("%s has mode %04o: others could replace %s", up, info.Mode().Perm(), dir)
		}
	}
	real, err := filepath.EvalSymlinks(lowest)
	if err != nil || real == lowest {
		return err
	}
	return above(filepath.Join(real, "below"), self)
}

// own makes a folder, or follows a link to it. The link must belong to root or the user of this process.
func own(what, dir string, self int) (os.FileInfo, error) {
	info, err := os.Lstat(dir)
	if err == nil && info.Mode()&os.ModeSymlink != 0 {
		if uid, ok := owner(info); ok && uid != self && uid != 0 {
			return nil, fmt.Errorf("%s %s is a symbolic link that user %d has made, and this process is user %d: delete it", what, dir,
				uid, self)
		}
	}
	if err := dirs.Make(dir, mode); err != nil {
		return nil, fmt.Errorf("create %s: %w", what, err)
	}
	info, err = os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", what, err)
	}
	return info, nil
}

// narrow refuses a folder into which every user can write, and removes the permissions in away from any other folder.
func narrow(what, dir string, info os.FileInfo, away os.FileMode, log *slog.Logger) error {
	perm := info.Mode().Perm()
	switch {
	case !modes || perm&(away|anyWrite) == 0:
		return nil
	case perm&anyWrite != 0:
		return fmt.Errorf("%s %s has mode %04o: every user of the machine could replace what is in it; make it 0700 with chmod if "+
			"nobody has", what, dir, perm)
	}
	if err := os.Chmod(dir, info.Mode()&^away); err != nil {
		return errors.Join(fmt.Errorf("%s %s has mode %04o, which lets others in, and it cannot be changed", what, dir, perm), err)
	}
	log.Warn("a folder let other users in; it does no longer", "folder", dir, "mode", fmt.Sprintf("%04o", perm),
		"now", fmt.Sprintf("%04o", perm&^away))
	return nil
}
