package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/backup"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// BackupFile is a file of a backup: its name, size and SHA-256, and when the store has written it.
type BackupFile = backup.File

// BackupInfo says where a backup is and what it has written:
//
//	Dir      string // of the backup
//	Files    int
//	Bytes    int64    // of all files
//	NewFiles int      // that were not taken from the backup before
//	NewBytes int64
//	Notes    []string // what was wrong with the backup before, and was not taken from it for that reason
type BackupInfo = backup.Made

// BackupOptions says how a backup is made. The zero value is usable.
type BackupOptions struct {
	// BytesPerSecond bounds how fast files are read. 0 = DefaultBackupRate; negative = not at all.
	BytesPerSecond int64
	// Full has Backup and BackupDir share nothing with the newest backup of the place. Otherwise the tables that are shared are
	// compared with their SHA-256 in turn, an eighth of them each time; one that is damaged is not shared.
	Full bool
	// Have are files of an earlier backup that WriteBackup leaves out of the stream, if the store still has them.
	Have []BackupFile
}

// DefaultBackupRate is how many bytes a backup reads in a second. A disk does several times that, so that a host which
// commits meanwhile has most of it.
const DefaultBackupRate = 64 << 20

// checkpointer is a store that backups are made of.
type checkpointer interface {
	Checkpoint() (dir string, remove func() error, err error)
}

// Backup makes a backup of everything that is durable when it is called, of all namespaces, in a place: a directory of
// backups, which it creates if need be. Files that the newest backup of the place has are shared with it by hard links.
// The backup is durable when it returns; after an error there is none. The host continues meanwhile. ErrLocked if
// another backup is being made in the place.
func (h *Host) Backup(ctx context.Context, place string, opts BackupOptions) (*BackupInfo, error) {
	made, err := backup.Create(ctx, place, opts.create(), func(ctx context.Context, have []backup.File, w io.Writer) error {
		opts.Have = have
		return h.WriteBackup(ctx, w, opts)
	})
	return made, translate(err)
}

// WriteBackup writes a backup as a tar stream, the manifest last: a stream that ends without an error of WriteBackup is
// whole. Restore reads it, unless files were left out of it. Tables that the store writes anew meanwhile need room on
// the disk until WriteBackup returns.
func (h *Host) WriteBackup(ctx context.Context, w io.Writer, opts BackupOptions) error {
	s, ok := h.below.(checkpointer)
	if !ok {
		return &joined{errors.New("the store of this host is not on disk, and has no backups"), ErrInvalid}
	}
	now := h.cfg.Clock.Now()
	dir, remove, err := s.Checkpoint()
	if err != nil {
		return translate(err)
	}
	_, err = backup.Write(ctx, w, dir, backup.Options{Time: now, Release: release(), Have: opts.Have, BytesPerSecond: opts.rate()})
	return translate(errors.Join(err, remove()))
}

func (o *BackupOptions) rate() int64 {
	switch {
	case o.BytesPerSecond == 0:
		return DefaultBackupRate
	case o.BytesPerSecond < 0:
		return 0
	}
	return o.BytesPerSecond
}

func (o *BackupOptions) create() backup.CreateOptions {
	return backup.CreateOptions{Full: o.Full, BytesPerSecond: o.rate()}
}

// BackupDir is Host.Backup of a data directory that no host has open, of which it changes nothing. cfg gives Dir and Clock.
func BackupDir(ctx context.Context, cfg Config, place string, opts BackupOptions) (*BackupInfo, error) {
	made, err := backup.Create(ctx, place, opts.create(), func(ctx context.Context, have []backup.File, w io.Writer) error {
		opts.Have = have
		return WriteBackupDir(ctx, cfg, w, opts)
	})
	return made, translate(err)
}

// WriteBackupDir is Host.WriteBackup of a data directory that no host has open.
func WriteBackupDir(ctx context.Context, cfg Config, w io.Writer, opts BackupOptions) error {
	cfg = cfg.withDefaults()
	dir := filepath.Join(cfg.Dir, storeName)
	if _, err := os.Stat(dir); err != nil {
		return noData(cfg.Dir)
	}
	if err := pebblestore.CheckFormat(dir); err != nil {
		return translate(err)
	}
	seen, err := pebblestore.Look(dir) // an earlier release can restore a backup of what it has left
	if err != nil {
		return translate(err)
	}
	lock, err := pebblestore.LockDir(dir)
	if err != nil {
		return translate(fmt.Errorf("%s: %w", cfg.Dir, err))
	}
	_, err = backup.Write(ctx, w, dir, backup.Options{Time: cfg.Clock.Now(), Release: release(), Format: seen.Format,
		Have: opts.Have, BytesPerSecond: opts.rate()})
	return translate(errors.Join(err, lock.Close()))
}

// storeName is the folder of the store in a data directory.
const storeName = "store"

func noData(dir string) error {
	return &joined{fmt.Errorf("%s holds no data of wfhost", dir), ErrNotFound}
}

// RestoreOptions says how a backup is restored.
type RestoreOptions struct {
	// AsCopy makes the data a copy: a host that opens it answers what only reads, and refuses the rest with ErrCopy, until
	// Host.ReleaseCopy. So two copies of one store never act at the same time by mistake: both would wake the same runs, and
	// make the same attempts of steps under the same idempotency keys.
	AsCopy bool
}

// RestoreInfo says what was restored.
type RestoreInfo struct {
	Backup  string    `json:"backup,omitempty"` // its path; empty for a stream
	Time    time.Time `json:"time"`             // of the data
	Release string    `json:"release"`          // of wfhost that made the backup
}

// Restore makes a backup the data of a directory, which must be empty or not be there; durable on return. from is a
// backup, a place whose newest backup is taken, or a file that WriteBackup has written. The SHA-256 of each file is
// checked. If it is cut, a host refuses the directory. The answer says which backup it was: the newest one of a place
// is that with the last name.
func Restore(ctx context.Context, from, dir string, opts RestoreOptions) (*RestoreInfo, error) {
	of, m, err := backup.Restore(ctx, from, dir, opts.AsCopy)
	if err != nil {
		return nil, translate(err)
	}
	return &RestoreInfo{Backup: of, Time: m.Time, Release: m.Release}, nil
}

// RestoreFrom is Restore from a stream of WriteBackup.
func RestoreFrom(ctx context.Context, r io.Reader, dir string, opts RestoreOptions) (*RestoreInfo, error) {
	m, err := backup.RestoreStream(ctx, r, dir, opts.AsCopy)
	if err != nil {
		return nil, translate(err)
	}
	return &RestoreInfo{Time: m.Time, Release: m.Release}, nil
}

// copied is a store that may be a copy.
type copied interface {
	IsCopy() bool
	ReleaseCopy() error
}

// IsCopy reports whether the data is a copy in which nothing happens yet.
func (h *Host) IsCopy() bool {
	s, ok := h.below.(copied)
	return ok && s.IsCopy()
}

// refuseCopy returns why nothing may happen to runs, nil if it may.
func (h *Host) refuseCopy() error {
	if h.IsCopy() {
		return store.ErrCopy
	}
	return nil
}

// ReleaseCopy lets a copy act: from then on it is data like any other, durable on return. If Run is in flight, runs
// wake at once whose deadlines have passed. It does nothing to data that is no copy. See to it that the host of the
// original has ended.
func (h *Host) ReleaseCopy(ctx context.Context) error {
	s, ok := h.below.(copied)
	if !ok || !h.copied {
		return nil
	}
	if err := s.ReleaseCopy(); err != nil {
		return translate(err)
	}
	if h.cfg.Partitions != nil {
		return h.AcquirePartitions(ctx, h.cfg.Partitions...)
	}
	all := make([]int, NumPartitions)
	for i := range all {
		all[i] = i
	}
	return h.AcquirePartitions(ctx, all...)
}

// UpgradeStore raises the database of a data directory that no host has open to the newest format of Pebble that this
// release writes, and returns the format before and after. Nothing else does that, so that the release before can open
// what this one has used, until then.
func UpgradeStore(dir string) (before, after int, err error) {
	path := filepath.Join(dir, storeName)
	if _, err := os.Stat(path); err != nil {
		return 0, 0, noData(dir)
	}
	before, after, err = pebblestore.Upgrade(path, pebblestore.Options{})
	return before, after, translate(err)
}

// release is the version of this program, as Go knows it.
func release() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if v := info.Main.Version; info.Main.Path == modulePath || v == "" {
		return v
	}
	for _, d := range info.Deps {
		if d.Path == modulePath {
			return d.Version
		}
	}
	return info.Main.Version
}

// modulePath is the path of this module.
const modulePath = "github.com/wfhost/wfhost"
