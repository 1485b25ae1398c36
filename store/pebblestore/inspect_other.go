//go:build !unix || aix

package pebblestore

import (
	"errors"
	"io/fs"
	"os"
)

// lockHolder reports whether a process other than this one has locked a file: then it cannot be opened for writing.
func lockHolder(path string) (pid int, held bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, false, nil
	case err != nil:
		return 0, true, nil //nolint:nilerr // not every system says which error this is
	}
	return 0, false, f.Close()
}
