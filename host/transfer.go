package host

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/wfhost/wfhost/host/internal/datadir"
	"github.com/wfhost/wfhost/store/backup"
	"github.com/wfhost/wfhost/store/pebblestore"
	"github.com/wfhost/wfhost/store/transfer"
)

// OpenTransfer opens the store of a data directory that no host has open, as one side of transfer.Copy. With target set, it
// creates the store if there is none; otherwise it returns ErrNotFound then. ErrLocked if a host has it open, ErrVersion
// if a newer release has written it. A store of an earlier format is raised to the format of this release.
func OpenTransfer(dir string, target bool) (transfer.Store, error) {
	silent := slog.New(slog.DiscardHandler)
	path := filepath.Join(dir, storeName)
	_, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && !target:
		return nil, noData(dir)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	if err := backup.Unfinished(dir); err != nil {
		return nil, translate(err)
	}
	if err := datadir.CheckData(dir, silent); err != nil {
		return nil, err
	}
	if err := datadir.CheckStore(path, silent); err != nil {
		return nil, err
	}
	place, err := filepath.Abs(dir)
	if err == nil {
		place, err = filepath.EvalSymlinks(place)
	}
	if err != nil {
		return nil, err
	}
	s, err := pebblestore.OpenTransfer(path, place, pebblestore.Options{})
	if err != nil {
		return nil, translate(fmt.Errorf("%s: %w", dir, err))
	}
	return s, nil
}
