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
	// maxWorkers bounds the schedules that start something at a time: as many starts share an fsync.
	maxWorkers = 64
	// maxStarts bounds the runs that a schedule starts before its state is committed: so many starts are repeated after a crash,
	// and find their runs.
	maxStarts = 32
	// stripes is the number of locks of schedules.
	stripes = 1024
	// growth is what may come to a definition: instants that wait, runs, misses and errors.
	growth = 128 << 10
)

// What Config.Start returns, to be tested with errors.Is. With another error nobody knows whether the run was started, and it is
// tried again.
var (
	// ErrLater: the start is refused for now: a quota, or the disk is full.
	ErrLater = errors.New("refused for now")
	// ErrNever: the start is refused for good: there is no such workflow, or the id is taken by another run.
	ErrNever = errors.New("refused")
)

// errNotOwned is that of a schedule of another host.
var errNotOwned = fmt.Errorf("the schedule's partition is not owned by this host: %w", store.ErrFenced)

// Config is what a Keeper is made from. All fields are required.
type Config struct {
	Store  store.Store
	Logger *slog.Logger
	Now    func() int64 // Unix milliseconds
}

// Host is what a Keeper needs of the host. Its methods may be called concurrently.
type Host interface {
	// StartRun starts a run, durably, and reports whether it has not ended. One that was started before for this instant is as
	// good as a new one.
	StartRun(ctx context.Context, schedule store.RunKey, d *Definition, run string, in Instant) (live bool, err error)
	// Startable returns why no run of a definition could be started, whatever room there is: ErrNever if it is for good.
	Startable(ctx context.Context, schedule store.RunKey, d *Definition) error
	// Find returns a run of a schedule, nil if there is none of this id that the schedule has started.
	Find(ctx context.Context, schedule store.RunKey, run string) (*Found, error)
	// Live reports whether a run is there that has not ended.
	Live(ctx context.Context, run store.RunKey) (bool, error)
	// Cancel cancels a run, and Terminate terminates one, unless it has ended.
	CancelRun(ctx context.Context, run store.RunKey) error
	TerminateRun(ctx context.Context, run store.RunKey) error
	// Owned returns a partition, nil if this host does not own it.
	Owned(p store.PartitionID) store.Partition
	// Arm has Due called at an instant, store.NoWake for never. With an error it is called again after a while.
	Arm(schedule store.RunKey, wakeMs int64, err error)
	// StoreFailed says that the store has failed.
	StoreFailed(err error)
}

// Found is a run that a schedule has started.
type Found struct {
	AtMs      int64 // its nominal instant
	CreatedMs int64
	Live      bool // it has not ended
}

// Keeper keeps the schedules of a host. Its methods may be called concurrently.
type Keeper struct {
	cfg  Config
	host Host // set by Begin
	life *lifecycle.Life

	// locks are held while a schedule is looked at: so nobody else changes it. Starts, cancels and commits are waited for meanwhile.
	// They are taken before any other lock.
	locks [stripes]sync.Mutex

	mu      sync.Mutex // guards what follows; while it is held, only that of life is taken
	queue   []due
	workers int
}

// due is a schedule whose timer has rung.
type due struct {
	key  store.RunKey
	done func()
}

// New returns a Keeper that waits for Begin.
func New(cfg Config) *Keeper {
	return &Keeper{cfg: cfg, life: lifecycle.NewLife()}
}

// Begin tells the Keeper its host. It is called once.
func (k *Keeper) Begin(h Host) {
	k.host = h
	k.life.Begin()
}

// Close waits until nothing is being started, and starts nothing any more.
func (k *Keeper) Close() { k.life.Close() }

// Due has a schedule looked at whose timer has rung, and returns at once. done is called when that is over.
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

// work looks at schedules until there is none.
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
		k.look(ctx, d.key)
		d.done()
	}
}

// look does what is due of a schedule.
func (k *Keeper) look(ctx context.Context, key store.RunKey) {
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

// lock locks a schedule.
func (k *Keeper) lock(key store.RunKey) (unlock func()) {
	h := uint32(key.Namespace)
	for i := range len(key.ID) {
		h = (h ^ uint32(key.ID[i])) * 16777619
	}
	l := &k.locks[h%stripes]
	l.Lock()
	return l.Unlock
}

// Changed says that a run of a schedule has ended, or goes on after its end, since somebody has retried it. It returns when what
// follows from that is durable.
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

// read reads a schedule.
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

// commit makes the state of a schedule durable, if it has changed, and arms its timer. rec is the record that is there, and then
// the new one.
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

// change lets f change a schedule, does what is due, and commits the state. The state is committed as far as it came also with an
// error of a start that says nothing of the run.
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

// open reads a schedule that is to be changed. Its lock is held.
func (k *Keeper) open(ctx context.Context, key store.RunKey) (store.Schedule, *State, error) {
	rec, s, err := k.read(ctx, key)
	if err == nil && k.host.Owned(key.Partition()) == nil {
		err = errNotOwned
	}
	return rec, s, err
}

// advance does what is due, and commits the state as far as it came.
func (k *Keeper) advance(ctx context.Context, rec *store.Schedule, s *State) error {
	err := (&turn{k, rec.Key, s}).decide(ctx)
	return errors.Join(k.commit(ctx, rec, s), err)
}
