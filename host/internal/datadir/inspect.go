package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Fault is a problem of a folder: a host refuses the folder, or changes its permissions.
type Fault struct {
	Path    string
	Text    string // what is wrong
	Advice  string
	Refused bool // a host does not open the data; otherwise it fixes the permissions when it does
}

// Inspect returns the faults of a host's folders, without making or changing any. A folder that does not exist has none.
func Inspect(data, store, cache string) (faults []Fault, err error) {
	for _, f := range []struct {
		what, dir string
		narrowed  os.FileMode // permissions that the host takes away
		owned     bool        // it must belong to this user
	}{{"data directory", data, groupWrite, false}, {"store", store, notOwner, false}, {"compilation cache", cache, notOwner, true}} {
		found, err := inspect(f.what, f.dir, f.narrowed, f.owned, os.Geteuid())
		if err != nil {
			return faults, err
		}
		faults = append(faults, found...)
	}
	return faults, nil
}

func inspect(what, dir string, narrowed os.FileMode, owned bool, self int) (faults []Fault, err error) {
	link, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", what, err)
	}
	fault := func(refused bool, advice, format string, args ...any) {
		faults = append(faults, Fault{Path: dir, Text: fmt.Sprintf(format, args...), Advice: advice, Refused: refused})
	}
	linker, known := owner(link)
	if link.Mode()&os.ModeSymlink != 0 && known && linker != self && linker != 0 {
		fault(true, "delete the link", "the %s %s is a symbolic link that user %d has made, and this is user %d", what, dir, linker,
			self)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", what, err)
	}
	if !info.IsDir() {
		fault(true, "move it away", "the %s %s is no folder", what, dir)
		return faults, nil
	}
	perm, advice := info.Mode().Perm(), "chmod 0700 "+dir
	switch {
	case !modes:
	case perm&anyWrite != 0:
		fault(true, advice+" if nobody has replaced what is in it", "the %s %s has mode %04o: every user of the machine may write",
			what, dir, perm)
	case perm&narrowed != 0:
		fault(owned, advice, "the %s %s has mode %04o, which lets other users in", what, dir, perm)
	}
	if uid, ok := owner(info); ok && uid != self && owned {
		fault(true, "run this, and the server, as its owner, or delete it", "the %s %s belongs to user %d, and this is user %d", what,
			dir, uid, self)
	} else if ok && uid != self && self != 0 {
		fault(false, "run this as its owner", "the %s %s belongs to user %d, and this is user %d", what, dir, uid, self)
	}
	return faults, nil
}
