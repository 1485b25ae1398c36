//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package datadir

import (
	"errors"
	"os"
)

// lock fails. So a file on this system never has a lock, and is never taken for abandoned.
func lock(*os.File) error { return errors.ErrUnsupported }
