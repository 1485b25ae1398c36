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

// BackupFile is a file of a backup: its name, size and SHA-256, and when the store wrote it.
type BackupFile = backup.File

// BackupInfo describes a backup that was made:
//
//	Dir      string // of the backup
//	Files    int
//	Bytes    int64    // of all files
//	NewFiles int      // files that are not shared with the previous backup
//	NewBytes int64
//	Notes    []string // faults of the previous backup; the faulty files were not shared
type BackupInfo = backup.Made

// BackupOptions are the options of a backup. The zero value is usable.
type BackupOptions struct {
	// BytesPerSecond bounds how fast files are read. 0 = DefaultBackupRate; negative = no bound.
	BytesPerSecond int64
	// Full makes Backup and BackupDir share no files with the newest backup of the place. Without it, each backup
	// compares an eighth of the shared tables with their SHA-256, in turn; damaged tables are not shared.
	Full bool
	// Have are files of an earlier backup that WriteBackup leaves out of the stream, if the store still has them.
	Have []BackupFile
}

// DefaultBackupRate is how many bytes a backup reads per second. Disks are several times as fast, so most of the
// disk's throughput is left for commits.
const DefaultBackupRate = 64 << 20

// checkpointer is a store that supports backups.
type checkpointer interface {
	Checkpoint() (dir string, remove func() error, err error)
}

// Backup backs up everything that is durable when it is called, in all namespaces, to a place: a directory of
// backups, which it creates if need be. Files that the newest backup of the place has are shared with it by hard
// links. The backup is durable on return; after an error there is none. The host continues meanwhile. ErrLocked if
// another backup to the place is in progress.
func (h *Host) Backup(ctx context.Context, place string, opts BackupOptions) (*BackupInfo, error) {
	made, err := backup.Create(ctx, place, opts.create(), func(ctx context.Context, have []backup.File, w io.Writer) error {
		opts.Have = have
		return h.WriteBackup(ctx, w, opts)
	})
	return made, translate(err)
}

// WriteBackup writes a backup as a tar stream, the manifest last. The stream is complete if WriteBackup returns no
// error. Restore reads it, unless Have left files out of it. Tables that the store rewrites meanwhile take space on
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

// BackupDir is Host.Backup for a data directory that no host has open. It does not change the directory. cfg gives
// Dir and Clock.
func BackupDir(ctx context.Context, cfg Config, place string, opts BackupOptions) (*BackupInfo, error) {
	made, err := backup.Create(ctx, place, opts.create(), func(ctx context.Context, have []backup.File, w io.Writer) error {
		opts.Have = have
		return WriteBackupDir(ctx, cfg, w, opts)
	})
	return made, translate(err)
}

// WriteBackupDir is Host.WriteBackup for a data directory that no host has open.
func WriteBackupDir(ctx context.Context, cfg Config, w io.Writer, opts BackupOptions) error {
	cfg = cfg.withDefaults()
	dir := filepath.Join(cfg.Dir, storeName)
	if _, err := os.Stat(dir); err != nil {
		return noData(cfg.Dir)
	}
	if err := pebblestore.CheckFormat(dir); err != nil {
		return translate(err)
	}
	seen, err := pebblestore.Inspect(dir) // so that an earlier release can restore a backup of its own data
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

// storeName is the name of the store's folder in a data directory.
const storeName = "store"

func noData(dir string) error {
	return &joined{fmt.Errorf("%s holds no data of wfhost", dir), ErrNotFound}
}

// RestoreOptions are the options of a restore.
type RestoreOptions struct {
	// AsCopy makes the data a copy: until Host.ReleaseCopy, a host that opens it answers reads and refuses everything
	// else with ErrCopy. This prevents two copies of one store from acting at the same time: both would wake the same
	// runs, and make the same attempts of steps under the same idempotency keys.
	AsCopy bool
}

// RestoreInfo says what was restored.
type RestoreInfo struct {
	Backup  string    `json:"backup,omitempty"` // its path; empty for a stream
	Time    time.Time `json:"time"`             // of the data
	Release string    `json:"release"`          // the version of wfhost that made the backup
}

// Restore restores a backup into a directory, which must be empty or missing; durable on return. from is a backup, a
// place, whose newest backup is taken, or a file that WriteBackup has written. Restore checks the SHA-256 of each
// file. A host refuses the directory if Restore was interrupted. The result names the backup: the newest one of a
// place is the one with the last name.
func Restore(ctx context.Context, from, dir string, opts RestoreOptions) (*RestoreInfo, error) {
	of, m, err := backup.Restore(ctx, from, dir, opts.AsCopy)
	if err != nil {
		return nil, translate(err)
	}
	return &RestoreInfo{Backup: of, Time: m.Time, Release: m.Release}, nil
}

// RestoreFrom is Restore from a stream that WriteBackup has written.
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

// IsCopy reports whether the data is a copy that was not released yet.
func (h *Host) IsCopy() bool {
	s, ok := h.below.(copied)
	return ok && s.IsCopy()
}

// refuseCopy returns ErrCopy for a copy that was not released, and nil otherwise.
func (h *Host) refuseCopy() error {
	if h.IsCopy() {
		return store.ErrCopy
	}
	return nil
}

// ReleaseCopy turns a copy into ordinary data that may act, durable on return. If Run is in flight, runs whose
// deadlines have passed wake at once. It does nothing to data that is no copy. Stop the host of the original first.
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

// UpgradeStore raises the database of a data directory that no host has open to the newest Pebble format of this
// release, and returns the format before and after. No other call does that. Until then, the previous release can
// open data that this one has used.
func UpgradeStore(dir string) (before, after int, err error) {
	path := filepath.Join(dir, storeName)
	if _, err := os.Stat(path); err != nil {
		return 0, 0, noData(dir)
	}
	before, after, err = pebblestore.Upgrade(path, pebblestore.Options{})
	return before, after, translate(err)
}

// release returns the version of this program from its build info.
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
