// Package pebblestore is the store on disk, in one Pebble database. It is the only package that imports Pebble.
//
// A group commit is one Pebble batch, committed with an fsync of the write-ahead log; concurrent commits share
// an fsync through Pebble's commit pipeline. When Commit returns nil, the batch is durable.
//
// A failed write or fsync fails the whole store: the state of the log is unknown from then on, so nothing is retried,
// every later write returns store.ErrFailed with the cause, and OnFailure is called once. Reads continue. Pebble's
// fatal errors do not end the process: they mark the store as failed and park the goroutine that met them.
package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/semaphore"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/dirs"
	"github.com/wfhost/wfhost/store/pebblestore/logfs"
)

// Options says how a store is opened. The zero value is usable.
type Options struct {
	// FS is the file system. nil is the disk, where the files of the log are preallocated: see package logfs.
	FS vfs.FS
	// Around, if set, wraps the file system that the store uses, including the preallocation of logs. It is for tests
	// in which a disk fails or stalls.
	Around func(vfs.FS) vfs.FS
	// Logger receives Pebble's messages, and reports of slow disk operations. nil discards them.
	Logger *slog.Logger
	// OnFailure is called once, from any goroutine, when the store fails; nil is legal.
	OnFailure func(error)
	// NowMs returns the Unix time in milliseconds for the creation of a namespace. nil leaves it unknown.
	NowMs func() int64
	// NoSync leaves it to the operating system when files are written: a commit that has returned is not durable. It is
	// for measuring the cost of durability.
	NoSync bool
	// ReadOnly opens an existing store without changing any file except the lock file. All changes are refused with
	// store.ErrReadOnly. A store of an earlier format is store.ErrVersion.
	ReadOnly bool
	// Raised is called while a store of an earlier format is raised: the indexes of done of total partitions are built.
	// nil is legal.
	Raised func(done, total int)
	// Elapsed returns the time since some instant, by a monotonic clock. With it, Usage reports how long the log is
	// busy.
	Elapsed func() time.Duration

	transfer bool // of OpenTransfer: a mark of package transfer does not matter
}

// Store is a store on disk.
type Store struct {
	db       *pebble.DB
	dir      string
	fs       vfs.FS // without the measuring and preallocating layers
	onDisk   bool   // fs is the disk
	readOnly bool
	copied   atomic.Bool // see MarkCopy
	points   atomic.Uint64

	// See lock.go for the lock order.
	runs  [store.Partitions]heldRuns
	parts [store.Partitions]fence
	marks [store.Partitions]wakeMark
	inbox sync.Mutex
	cache cache
	cells cells

	payloads sync.Mutex

	tallies tallies
	walked  walked

	inboxes  [store.Partitions]inboxMark        // their locks are taken alone
	inboxSeq [store.Partitions]store.CommandSeq // the newest number, 0 if not yet read; guarded by inbox

	ranges     atomic.Int64        // range deletions since flushRanges last started a flush
	deletions  atomic.Int64        // runs deleted since Reclaim last flushed
	reclaimed  atomic.Bool         // the last Reclaim left nothing to do
	reclaim    *semaphore.Weighted // of weight 1, held by Reclaim
	reclaiming atomic.Bool         // Reclaim compacts
	flushes    atomic.Int32        // in progress
	sorted     atomic.Bool         // unsorted is up to date, or about to be
	unsorted   atomic.Int32        // layers of tables
	counting   sync.Mutex          // held while layers are counted

	chunkBytes int // the constant chunkBytes, except in measurements

	versions sync.Mutex // held to number versions and delete modules
	counted  bool       // set while the store is opened: see readUses
	newest   newest
	stalls   stallWatch
	disk     atomic.Pointer[diskLook]
	writes   writeStalls
	files    fileSize
	log      meter        // of the write-ahead log
	logs     *logfs.FS    // the file system of the write-ahead log, on a disk
	settling settling     // tokens, namespaces and limits that are being changed
	settings sync.RWMutex // of changes of namespaces, quotas, retentions and keys, and of their lists
	limits   sync.RWMutex // of changes of limits of workflows, and of their lists
	limited  cells        // cache of limits, by key: each start reads the limits of its workflow
	tokens   sync.RWMutex // of changes of tokens of callers, and of their list
	nowMs    func() int64

	lock      io.Closer   // of the directory
	opened    atomic.Bool // errors of the log fail the store, and not Pebble
	onFailure func(error)
	failOnce  sync.Once
	failed    chan struct{} // closed when the store has failed
	cause     error         // set before failed is closed

	mu      sync.Mutex
	closed  bool
	writers sync.WaitGroup
}

var _ store.Store = (*Store)(nil)

// memTableBytes is the size of a memtable, and the approximate size of a log file.
const memTableBytes = 16 << 20

// memTables is how many memtables there may be before commits wait for a flush. Two are filled and flushed in turns.
// The others buffer the writes until guests that write much see Behind.
const memTables = 4

// mostUnsorted is how many sublevels of level 0 there may be before commits wait for compactions. From manyUnsorted on,
// where the number usually stays, Behind makes guests that write much wait.
const (
	mostUnsorted = 48
	manyUnsorted = 12
)

// dirMode denies access to other users of the machine: the files hold payloads.
const dirMode = 0o700

// Open opens or creates the store in a directory. Only one process may have it open. A store that a newer release has
// written is store.ErrVersion, and its files are not changed.
func Open(dir string, opts Options) (*Store, error) {
	s, err := open(dir, opts)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	if !opts.ReadOnly {
		err = s.clean()
	}
	if err == nil {
		err = unsound(s.load(opts))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", dir, err), s.Close())
	}
	return s, nil
}

// open opens the database, unless a newer release has written it, and does not read it.
func open(dir string, opts Options) (*Store, error) {
	files := opts.FS
	if files == nil {
		files = vfs.Default
	}
	version, err := checkFiles(files, dir)
	if err != nil {
		return nil, err
	}
	return openDB(dir, opts, version)
}

// openDB opens the database, and creates or raises it in the given Pebble format.
func openDB(dir string, opts Options, version pebble.FormatMajorVersion) (s *Store, err error) {
	s = &Store{dir: dir, fs: opts.FS, readOnly: opts.ReadOnly, chunkBytes: chunkBytes, nowMs: opts.NowMs, onFailure: opts.OnFailure,
		failed: make(chan struct{}), reclaim: semaphore.NewWeighted(1)}
	if opts.FS == nil {
		s.onDisk, s.fs, opts.FS = true, vfs.Default, vfs.Default
		if !opts.ReadOnly {
			if err := dirs.Make(dir, dirMode); err != nil {
				return nil, fmt.Errorf("create store directory: %w", err)
			}
			if !opts.NoSync {
				s.logs = logfs.New(opts.FS, dir, memTableBytes)
				opts.FS = s.logs
			}
		}
	}
	if opts.NoSync {
		opts.FS = noSync{opts.FS}
		s.fs = opts.FS
	}
	if opts.Around != nil {
		opts.FS = opts.Around(opts.FS)
	}
	s.stalls.report = opts.reportStall
	opts.FS = stallFS{opts.FS, &s.stalls}
	s.log.elapsed = opts.Elapsed
	if opts.Elapsed != nil {
		opts.FS = logMeter{opts.FS, &s.log}
	}
	opts.FS = guard{opts.FS, s}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if err := s.openPebble(dir, s.options(opts, version)); err != nil {
		s.stalls.close()
		if s.logs != nil {
			s.logs.Close()
		}
		err = unsound(locked(err))
		if s.onDisk {
			err = olderDamage(dir, err)
		}
		return nil, err
	}
	s.opened.Store(true)
	if s.onDisk {
		lockFiles.add(s)
	}
	return s, nil
}

// openPebble opens the database. Pebble first flushes the log to tables. If these cannot be written, it would retry
// forever: see background.
func (s *Store) openPebble(dir string, options *pebble.Options) error {
	type opened struct {
		db  *pebble.DB
		err error
	}
	done := make(chan opened, 1)
	go func() {
		var db *pebble.DB
		err := placeFormat(dir, options)
		if err == nil {
			db, err = pebble.Open(dir, options)
		}
		done <- opened{db, err}
	}()
	select {
	case o := <-done:
		s.db = o.db
		return o.err
	case <-s.failed:
		// The rest of the database touches no files any more (see guard): the directory can be opened again.
		if s.lock != nil {
			return errors.Join(s.cause, s.lock.Close())
		}
		return s.cause
	}
}

// isLocked reports whether an error says that a process has the directory open.
func isLocked(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || err != nil && strings.Contains(err.Error(), "lock held by current process")
}

// largeBlockAlone ends a block, at this percentage of its usual size, before a value that would make it too large.
// Otherwise a module would share a block with the small keys before it. A block of megabytes is larger than a shard of
// the cache: in a small store, each lookup of wakes read and decompressed the module.
const largeBlockAlone = 1

// options returns the options of the database for the given Pebble format.
func (s *Store) options(opts Options, version pebble.FormatMajorVersion) *pebble.Options {
	logger := &logger{s: s, log: opts.Logger}
	listener := pebble.EventListener{
		BackgroundError: logger.background,
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			opts.Logger.Error("store is corrupt", "file", info.Path, "cause", firstLine(info.Details))
		},
		WriteStallBegin:   func(info pebble.WriteStallBeginInfo) { s.writes.stall(opts.Logger, info.Reason) },
		WriteStallEnd:     s.writes.goOn,
		PossibleAPIMisuse: func(info pebble.PossibleAPIMisuseInfo) { opts.Logger.Error("store misused", "detail", info) },
		LowDiskSpace:      func(info pebble.LowDiskSpaceInfo) { opts.Logger.Warn("disk is nearly full", "detail", info) },
		FlushBegin:        func(pebble.FlushInfo) { s.flushes.Add(1) },
		FlushEnd: func(pebble.FlushInfo) {
			s.flushes.Add(-1)
			s.sorted.Store(false)
		},
		CompactionEnd: func(pebble.CompactionInfo) { s.sorted.Store(false) },
	}
	options := &pebble.Options{
		FS: opts.FS, Logger: logger, EventListener: &listener,
		ReadOnly:           opts.ReadOnly,
		FormatMajorVersion: version,
		Merger:             concatenate,
		MemTableSize:       memTableBytes,

		MemTableStopWritesThreshold: memTables,
		L0StopWritesThreshold:       mostUnsorted,
		CacheSize:                   64 << 20, // memtables count as part of it
		CompactionConcurrencyRange:  s.compactionsAtATime,
	}
	for i := range options.Levels { // a start looks for the run in every table, and most tables have no key of it
		options.Levels[i].FilterPolicy = newFilter()
		options.Levels[i].BlockSizeThreshold = largeBlockAlone
	}
	options.Experimental.CompactionScheduler = &compactions{atATime: s.compactionsAtATime}
	return options
}

// clean removes files that a killed process left, and writes the store's format file.
func (s *Store) clean() error {
	err := errors.Join(s.raiseFiles(), s.removeCheckpoints())
	if s.logs != nil {
		err = errors.Join(err, s.logs.Clean())
	}
	return err
}

// get reads a value, nil if there is none. A failed read is an error for the caller, and does not fail the store.
func (s *Store) get(key []byte) ([]byte, error) {
	v, closer, err := s.db.Get(key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return nil, nil
	case pebble.IsCorruptionError(err):
		return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	case err != nil:
		return nil, err
	}
	out := append([]byte{}, v...)
	return out, closer.Close()
}

// begin reports whether the store may be used, and keeps it open until the returned function is called.
func (s *Store) begin() (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	s.writers.Add(1)
	return s.writers.Done, nil
}

// beginWrite is begin for changes, which a failed store, a copy and a read-only store refuse.
func (s *Store) beginWrite() (end func(), err error) {
	if s.readOnly {
		return nil, store.ErrReadOnly
	}
	if s.copied.Load() {
		return nil, store.ErrCopy
	}
	select {
	case <-s.failed:
		return nil, s.failure()
	default:
		return s.begin()
	}
}

func (s *Store) failure() error { return fmt.Errorf("%w: %w", store.ErrFailed, s.cause) }

func (s *Store) fail(err error) {
	s.failOnce.Do(func() {
		s.cause = err
		close(s.failed)
		if s.onFailure != nil {
			s.onFailure(s.failure())
		}
	})
}

// closeTimeout bounds how long Close waits for a failed store, whose locks may never be released.
const closeTimeout = time.Second

// Close closes the store once the calls in progress have returned. The files of a failed store are released with the
// process.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		s.writers.Wait()
		done <- s.closeDB()
	}()
	select {
	case err := <-done:
		select {
		case <-s.failed:
			return s.failure()
		default:
			return err
		}
	case <-s.failed:
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		select {
		case <-done: // its errors follow from the failure
		case <-ctx.Done():
		}
		return s.failure()
	}
}

// closeDB closes the database; Pebble panics if an iterator is still open.
func (s *Store) closeDB() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("close store: %v", r)
		}
	}()
	defer s.stalls.close()
	defer lockFiles.remove(s)
	if s.logs != nil {
		defer s.logs.Close()
		err = s.logs.Stop()
	}
	return errors.Join(err, s.db.Close())
}

// logger passes Pebble's messages to slog. Fatalf must not return to its caller, and must not end the process.
type logger struct {
	s   *Store
	log *slog.Logger
}

// background handles errors of flushes and compactions. If a table cannot be read, the log is not affected. After any other
// error, the goroutine of Pebble that met it is parked, because it would otherwise retry at once, forever. Its locks are unlocked
// first, so that reads continue.
func (l *logger) background(err error) {
	if pebble.IsCorruptionError(err) {
		l.log.Error("store is corrupt", "cause", firstLine(err))
		return
	}
	l.s.fail(err)
	runtime.Goexit()
}

func (l *logger) Infof(format string, args ...any) { l.log.Debug(fmt.Sprintf(format, args...)) }

func (l *logger) Errorf(format string, args ...any) { l.log.Error(fmt.Sprintf(format, args...)) }

func (l *logger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	l.log.Error("store has failed", "cause", err)
	l.s.fail(err)
	select {} // the locks of this goroutine stay locked: a failed store takes no writes
}
