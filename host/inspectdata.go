package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/wfhost/wfhost/host/internal/datadir"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/backup"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// DataState is the result of InspectData.
type DataState struct {
	Dir    string `json:"dir"`
	Exists bool   `json:"exists"` // the directory
	Store  bool   `json:"store"`  // it contains a store
	// Format is the format of the store. It is 0 if there is no store, or an earlier release has it open. StoreFormat
	// is the format that this release writes.
	Format   int  `json:"format,omitempty"`
	Database int  `json:"database,omitempty"` // the format of Pebble
	Open     bool `json:"open"`               // a process has it open, as far as the system reports that
	Holder   int  `json:"holder,omitempty"`   // its process id, 0 if unknown
	// Refused is the error that Open would return, apart from ErrLocked; nil if the inspection found none.
	Refused error         `json:"-"`
	Folders []FolderFault `json:"folders"`
	Disk    DiskState     `json:"disk"` // of the directory, or of its nearest existing parent
}

// FolderFault is a fault of a folder that Open would refuse or mend.
type FolderFault = datadir.Fault

// StoreFormat is the format of stores that this release writes. It opens earlier formats, and raises them.
const StoreFormat = store.FormatVersion

// InspectData inspects a data directory without opening its store, also while a host has it open. It changes nothing.
// reserve is as in Config.DiskReserve. An error means that the directory cannot be read.
func InspectData(dir string, reserve int64) (s DataState, err error) {
	s = DataState{Dir: dir, Folders: []FolderFault{}}
	at := dir
	for {
		_, err = os.Stat(at)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			break
		}
		at, err = filepath.Abs(at)
		if err != nil {
			return s, err
		}
		at = filepath.Dir(at)
	}
	if err != nil {
		return s, fmt.Errorf("inspect data directory: %w", err)
	}
	monitor := datadir.NewDiskMonitor(datadir.Config{Reserve: reserve,
		Disk: func() (store.Disk, error) { return pebblestore.DiskOf(at) }})
	disk, err := monitor.Check()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return s, err
	}
	s.Disk, s.Exists = diskState(disk), at == dir
	if !s.Exists {
		return s, nil
	}
	s.Refused = translate(backup.Unfinished(dir))
	faults, err := datadir.Inspect(dir, filepath.Join(dir, storeName), filepath.Join(dir, "cache"))
	s.Folders = append(s.Folders, faults...)
	if err != nil {
		return s, err
	}
	seen, err := pebblestore.Inspect(filepath.Join(dir, storeName))
	s.Store, s.Format, s.Database, s.Open, s.Holder = seen.Exists, seen.Format, seen.Database, seen.Open, seen.Holder
	if errors.Is(err, store.ErrLocked) { // another process opened it meanwhile
		s.Open = true
		return s, nil
	}
	if err != nil {
		s.Refused = errors.Join(s.Refused, translate(err))
	}
	return s, nil
}
