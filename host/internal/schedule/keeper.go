package schedule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/wfhost/wfhost/host/internal/lifecycle"
	"github.com/wfhost/wfhost/store"
)

const (
	// maxWorkers bounds the schedules that are processed concurrently. Their starts share fsyncs.
	maxWorkers = 64
	// maxStarts bounds the starts of a schedule between two commits of its state. After a crash at most this many are repeated,
	// and find their runs.
	maxStarts = 32
	// stripes is the number of locks that the schedules share.
	stripes = 1024
	// growth is room for what is added to a definition: waiting instants, runs, misses and errors.
	growth = 128 << 10
)

// Errors of Host.StartRun and Host.Startable, to be tested with errors.Is. With any other error of StartRun it is unknown
// whether the run was started, and the start is retried.
var (
	// ErrLater: the start is refused for now, by a quota or because the disk is full.
	ErrLater = errors.New("refused for now")
	// ErrNever: the start is refused for good: the workflow does not exist, or another run has the id.
	ErrNever = errors.New("refused")
)

// errNotOwned is returned for a schedule whose partition another host owns.
var errNotOwned = fmt.Errorf("the schedule's partition is not owned by this host: %w", store.ErrFenced)

// Config configures a Keeper. All fields are required.
type Config struct {
	Store  store.Store
	Logger *slog.Logger
	Now    func() int64 // Unix milliseconds
}

// Host is the part of the host that a Keeper uses. Its methods may be called concurrently.
type Host interface {
	// StartRun starts a run, durably, and reports whether the run has not ended. If the run of this instant was started
	// before, StartRun returns as if it had started it.
	StartRun(ctx context.Context, schedule store.RunKey, d *Definition, run string, in Instant) (live bool, err error)
	// Startable returns why no run of the definition could start even with room for it: ErrNever if for good.
	Startable(ctx context.Context, schedule store.RunKey, d *Definition) error
	// Find returns a run that the schedule has started under this id, nil if there is none.
	Find(ctx context.Context, schedule store.RunKey, run string) (*Found, error)
	// Live reports whether a run exists and has not ended.
	Live(ctx context.Context, run store.RunKey) (bool, error)
	// CancelRun cancels and TerminateRun terminates a run that has not ended.
	CancelRun(ctx context.Context, run store.RunKey) error
	TerminateRun(ctx context.Context, run store.RunKey) error
	// Owned returns a partition, nil if this host does not own it.
	Owned(p store.PartitionID) store.Partition
	// Arm sets the instant of the next call of Due, store.NoWake for none. With an error, Due is called again after a delay.
	Arm(schedule store.RunKey, wakeMs int64, err error)
	// StoreFailed reports that the store has failed.
	StoreFailed(err error)
}

// Found is an existing run of a schedule.
type Found struct {
	AtMs      int64 // its nominal instant
	CreatedMs int64
	Live      bool // the run has not ended
}

// Keeper runs the schedules of a host. Its methods may be called concurrently.
type Keeper struct {
	cfg  Config
	host Host // set by Begin
	life *lifecycle.Life

	// locks guard the schedules, by a hash of their keys. A lock is held while a schedule is processed, including its starts,
	// cancels and commits, and is taken before any other lock.
	locks [stripes]sync.Mutex

	mu      sync.Mutex // guards queue and workers; only the lock of life may be taken while it is held
	queue   []due
	workers int
}

// due is a schedule whose timer fired.
type due struct {
	key  store.RunKey
	done func()
}

// New returns a Keeper that waits for Begin.
func New(cfg Config) *Keeper {
	return &Keeper{cfg: cfg, life: lifecycle.NewLife()}
}

// Begin sets the Host and starts work. It is called once.
func (k *Keeper) Begin(h Host) {
	k.host = h
	k.life.Begin()
}

// Close waits until no start is in progress. Afterwards nothing is started.
func (k *Keeper) Close() { k.life.Close() }

// Due queues a schedule whose timer fired. It does not block. done is called when the schedule has been processed.
func (k *Keeper) Due(key store.RunKey, done func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.workers < maxWorkers {
		if !k.life.Go(k.work) { // closed
			go done() // it may take locks
			return
		}
		k.workers++
	}
	k.queue = append(k.queue, due{key, done})
}

// work processes the queue until it is empty.
func (k *Keeper) work(ctx context.Context) {
	for {
		k.mu.Lock()
		if len(k.queue) == 0 {
			k.workers--
			k.queue = nil
			k.mu.Unlock()
			return
		}
		d := k.queue[0]
		k.queue = k.queue[1:]
		k.mu.Unlock()
		k.process(ctx, d.key)
		d.done()
	}
}

// process processes one schedule and logs errors.
func (k *Keeper) process(ctx context.Context, key store.RunKey) {
	if k.life.Wait(ctx) != nil {
		return
	}
	err := k.change(ctx, key, func(*State) error { return nil })
	switch {
	case err == nil, errors.Is(err, store.ErrNotFound), ctx.Err() != nil: // it was deleted
	default:
		k.cfg.Logger.Error("a schedule could not do what is due", "schedule", key.ID, "cause", err)
		k.host.Arm(key, 0, err)
	}
}

// lock locks a schedule and returns the function that unlocks it.
func (k *Keeper) lock(key store.RunKey) (unlock func()) {
	h := uint32(key.Namespace)
	for i := range len(key.ID) {
		h = (h ^ uint32(key.ID[i])) * 16777619
	}
	l := &k.locks[h%stripes]
	l.Lock()
	return l.Unlock
}

// Changed updates a schedule one of whose runs has ended, or lives again after a retry. It returns when the new state is
// durable.
func (k *Keeper) Changed(ctx context.Context, key store.RunKey, run string) error {
	if err := k.life.Wait(ctx); err != nil {
		return err
	}
	defer k.lock(key)()
	rec, s, err := k.read(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	found, err := k.host.Find(ctx, key, run)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	if !s.RunLives(run, found != nil && found.Live) {
		return nil
	}
	return k.commit(ctx, &rec, s)
}

// read reads a schedule from the store.
func (k *Keeper) read(ctx context.Context, key store.RunKey) (store.Schedule, *State, error) {
	rec, err := k.cfg.Store.Schedule(ctx, key)
	if err != nil {
		return rec, nil, err
	}
	s, err := decode(rec.Data)
	if err != nil {
		return rec, nil, fmt.Errorf("schedule %q: %w", key.ID, err)
	}
	return rec, s, nil
}

// commit makes the state of a schedule durable, if it has changed, and arms its timer. rec is the stored record; commit
// replaces it with the new one.
func (k *Keeper) commit(ctx context.Context, rec *store.Schedule, s *State) error {
	now := k.cfg.Now()
	data, wake := s.encode(), s.Wake(rec.Key.ID, now)
	if bytes.Equal(data, rec.Data) && wake == rec.WakeUnixMs {
		k.host.Arm(rec.Key, wake, nil)
		return nil
	}
	next := store.Schedule{Key: rec.Key, Revision: rec.Revision + 1, WakeUnixMs: wake, Data: data}
	if err := k.set(ctx, store.ScheduleSet{Schedule: next}); err != nil {
		return err
	}
	*rec = next
	k.host.Arm(rec.Key, wake, nil)
	return nil
}

// set commits the record of a schedule.
func (k *Keeper) set(ctx context.Context, x store.ScheduleSet) error {
	owned := k.host.Owned(x.Schedule.Key.Partition())
	if owned == nil {
		return errNotOwned
	}
	err := k.cfg.Store.Commit(context.WithoutCancel(ctx), []store.Group{{Partition: owned, Schedules: []store.ScheduleSet{x}}})
	if errors.Is(err, store.ErrFailed) {
		k.host.StoreFailed(err)
	}
	if refused, ok := errors.AsType[*store.RefusedError](err); ok {
		err = refused.Err
	}
	return err
}

// change calls f with the state of a schedule, performs what is due, and commits. Progress is committed even if a start
// returned an error that leaves its outcome unknown.
func (k *Keeper) change(ctx context.Context, key store.RunKey, f func(*State) error) error {
	defer k.lock(key)()
	rec, s, err := k.open(ctx, key)
	if err != nil {
		return err
	}
	if err := f(s); err != nil {
		return err
	}
	return k.advance(ctx, &rec, s)
}

// open reads a schedule to change it. The caller holds its lock.
func (k *Keeper) open(ctx context.Context, key store.RunKey) (store.Schedule, *State, error) {
	rec, s, err := k.read(ctx, key)
	if err == nil && k.host.Owned(key.Partition()) == nil {
		err = errNotOwned
	}
	return rec, s, err
}

// advance performs what is due and commits the progress, also after an error.
func (k *Keeper) advance(ctx context.Context, rec *store.Schedule, s *State) error {
	err := (&pass{k, rec.Key, s}).decide(ctx)
	return errors.Join(k.commit(ctx, rec, s), err)
}
