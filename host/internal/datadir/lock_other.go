//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package datadir

import (
	"errors"
	"os"
)

// lock fails: a file that is never locked is never taken for abandoned either.
func lock(*os.File) error { return errors.ErrUnsupported }
