package datadir

import (
	"errors"
	"os"
)

const lockMode = 0o600

// Lock makes a file and locks it until the file is closed or the process ends, even by a crash. It fails at once if
// another process or another caller holds the lock, and with errors.ErrUnsupported where files cannot be locked.
func Lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, lockMode)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(&os.PathError{Op: "lock", Path: path, Err: err}, f.Close())
	}
	return f, nil
}
