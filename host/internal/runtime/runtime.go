// Package runtime runs the partitions that a host owns. It creates the writers of their shards and implements the shards' port:
// it reads and writes the store, runs guests and handlers, and carries commands between runs. Every operation of the host on
// runs goes through it.
//
//	Runs, Partitions, Watchers   what package host calls
//	          |
//	          v
//	  shard.Writers   a goroutine for each shard
//	          |
//	          v
//	   shard.Shard  ->  port: desk (guests and attempts), courier (commands), reporter (events, logs), the store
//
// Only its writer's goroutine uses a shard. A run is used by its shard, or by the guest to which it is lent. All other shared
// state has its own locks, which are held for a few instructions unless their comment says otherwise.
package runtime

import (
	"context"
	"errors"
	goruntime "runtime"
	"time"

	"github.com/wfhost/wfhost/host/internal/check"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/shard"
	"github.com/wfhost/wfhost/store"
)

// Limits of all shards together, unless a comment says otherwise.
const (
	// maxShards is the maximum of writers. One writer can serve far more runs than one processor can compute.
	maxShards = 16
	// wokenRuns is the maximum of woken runs, for each writer. Some of them compute while others wait for the disk. Two
	// commits of one millisecond each leave time for some ten wakes. With a higher limit, too many runs compete for caches
	// and instances.
	wokenRuns = 32
	// maxStarts is the maximum of new runs that wait for a place with their state in memory.
	maxStarts = 4096
	// startBytes bounds the journals of these runs. It has room for some dozens of the largest inputs.
	startBytes = 64 << 20
	// keptBytes bounds the runs kept in memory at rest, which need not be read again when they wake. It has room for some ten
	// thousand short journals.
	keptBytes = 32 << 20
	// loadedTimers is the limit of timers in memory, at some 120 bytes each.
	loadedTimers = 1 << 17
	// maxCommits is the maximum of group commits in flight per writer.
	maxCommits = 4
	// duePortion is the maximum number of wakes per read of the index.
	duePortion = 1024
)

// Runtime runs the partitions that this host owns.
type Runtime struct {
	Runs       *Runs
	Versions   *module.Versions
	Partitions *Partitions
	Watchers   *Watchers
	Checks     *check.Checker

	cfg      Config
	life     *life
	writers  shard.Writers
	guests   *guest.Runner
	handlers *handler.Registry
	reporter *reporter
}

// New acquires the partitions of cfg and recovers their runs. No guest or attempt starts before Run.
func New(ctx context.Context, cfg Config) (*Runtime, error) {
	l := newLife(ctx)
	rt := &Runtime{cfg: cfg, life: l, Watchers: newWatchers()}
	h := cfg.Handlers
	h.Watch, h.Runs, h.Activity = cfg.Watch, rt, &l.activity
	h.Background = func(f func(context.Context)) { l.background(func() { f(l.ctx) }) }
	rt.handlers = handler.NewRegistry(h)
	g := cfg.Guests
	g.Store, g.Clock, g.Logger, g.Random, g.Quotas, g.Watch = cfg.Store, cfg.Clock, cfg.Logger, cfg.Random, cfg.Quotas, cfg.Watch
	g.Owes, g.Handled, g.OnWait, g.OnEnd = rt.owes, rt.handlers.Handled, cfg.Events.Waits, cfg.Events.Activation
	rt.guests = guest.NewRunner(g)
	rt.Checks = check.New(check.Config{Guests: rt.guests, Store: cfg.Store, Journals: g.Journals, MaxFuel: g.MaxFuel,
		MaxSegmentCPU: g.MaxSegmentCPU, MaxHostCalls: g.MaxHostCalls, OnWait: cfg.Events.Waits, OnVerify: cfg.Events.Replay})
	for range min(goruntime.GOMAXPROCS(0), maxShards) {
		rt.writers = append(rt.writers, shard.NewWriter(shard.WriterConfig{Clock: cfg.Clock, Activity: &l.activity, Commits: maxCommits,
			Commit: rt.commit}))
	}
	rt.Versions = &module.Versions{Usable: l.usable, Store: cfg.Store, Guests: rt.guests}
	logger := withoutFloods(cfg.Logger)
	rt.Partitions = &Partitions{life: l, store: cfg.Store, writers: rt.writers, logger: logger, owner: cfg.Owner,
		lease: cfg.Lease, notify: cfg.Notify}
	rt.Runs = &Runs{life: l, store: cfg.Store, writers: rt.writers, guests: rt.guests, versions: rt.Versions,
		random: cfg.Random, refuse: cfg.Refuse, keepers: cfg.Keepers, ids: cfg.IDs}
	rt.reporter = &reporter{life: l, logger: logger, events: cfg.Events, watchers: rt.Watchers, partitions: rt.Partitions,
		unreadable: &rt.Runs.unreadable}
	rt.startWriters()
	ids := cfg.Partitions
	if ids == nil {
		for p := range store.PartitionID(store.Partitions) {
			ids = append(ids, p)
		}
	}
	if err := rt.Partitions.Acquire(ctx, ids...); err != nil {
		rt.Close()
		return nil, err
	}
	l.wg.Go(rt.Partitions.watchInboxes)
	return rt, nil
}

// owes reports whether the runs of a namespace must wait because they have written more than their quota allows.
func (rt *Runtime) owes(of store.NamespaceID) bool {
	return rt.cfg.Quotas.OwesMs(uint32(of), rt.cfg.Clock.Now().UnixMilli()) > 0
}

// QuotasChanged makes each writer check again which runs its quotas hold back.
func (rt *Runtime) QuotasChanged() { rt.writers.Post(func(*shard.Shard, int64) {}) }

// startWriters gives each writer a shard, and the shard a port.
func (rt *Runtime) startWriters() {
	n := len(rt.writers)
	limits := shard.Limits{Woken: wokenRuns, Starts: max(maxStarts/n, 1), StartBytes: startBytes / int64(n),
		KeptBytes: keptBytes / int64(n), Timers: loadedTimers / n, Portion: duePortion, Commits: maxCommits,
		StartLinger: rt.cfg.StartLinger, Pacer: rt.cfg.Quotas, Clock: rt.Runs.Clocks.Now}
	c := &courier{store: rt.cfg.Store, kick: rt.Partitions.Kick, versions: rt.Versions, random: rt.cfg.Random,
		admit: rt.cfg.Admit, keepers: rt.cfg.Keepers, ids: rt.cfg.IDs}
	for _, w := range rt.writers {
		d := &desk{life: rt.life, writer: w, guests: rt.guests, Registry: rt.handlers, clock: rt.cfg.Clock,
			ended: rt.cfg.Events.Attempt}
		p := &port{desk: d, reporter: rt.reporter, life: rt.life, store: rt.cfg.Store, writers: rt.writers,
			partitions: rt.Partitions, courier: c, writer: w, journals: rt.cfg.Guests.Journals,
			clocks: &rt.Runs.Clocks}
		w.Start(shard.New(p, limits))
	}
}

// Handle registers a handler, under its name without prefix.
func (rt *Runtime) Handle(name string, f handler.Func) { rt.handlers.Handle(name, f) }

// HandleRemote is Handle for a handler outside the process.
func (rt *Runtime) HandleRemote(name string, m handler.Remote) { rt.handlers.HandleRemote(name, m) }

// Waits returns what an attempt of a run waits for; false if none waits for its handler.
func (rt *Runtime) Waits(key store.RunKey) (handler.Waiting, bool) { return rt.handlers.Waits(key) }

// WaitingOf returns how many attempts of a remote handler wait that no worker can take yet.
func (rt *Runtime) WaitingOf(name string, ns store.NamespaceID) int {
	return rt.handlers.WaitingOf(name, ns)
}

// Admitted gives an attempt that waited its place: see handler.Runs.
func (rt *Runtime) Admitted(key store.RunKey, ev run.Admitted) {
	rt.writers.Of(key.Partition()).Post(func(s *shard.Shard, now int64) { s.Admitted(now, key, ev) })
}

// Queued says that an attempt waits for its turn: see handler.Runs.
func (rt *Runtime) Queued(key store.RunKey, handle int64) {
	rt.writers.Of(key.Partition()).Post(func(s *shard.Shard, now int64) { s.Queued(now, key, handle) })
}

// Run fires timers and activates runs until ctx is done. Then it drains: it starts no new guests and attempts, and waits, for at
// most Config.Drain (10 ms if that is less), until the computing guests have come to their next wait and the running attempts
// have ended. Their outcomes are durable when it returns. It returns an error if the store has failed, or if the runtime was
// closed before Run.
func (rt *Runtime) Run(ctx context.Context) error {
	l := rt.life
	l.activity.Begin() // until all shards are active
	rt.guests.Undrain()
	err := l.run()
	if err == nil {
		rt.setActive(true)
		rt.handlers.SetDraining(false) // last, so that no run is read whose attempt cannot begin yet
	}
	l.activity.Done()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-l.failing:
	case <-l.ctx.Done():
	}
	rt.drain()
	return l.failure()
}

func (rt *Runtime) setActive(active bool) {
	rt.writers.Do(func(s *shard.Shard, now int64) { s.SetActive(now, active) }) // not called for closed writers
}

const leastDrain = 10 * time.Millisecond // lets attempts that are about to end do so, and avoids a false warning

// drain stops new work and waits for the work in flight, for at most Config.Drain.
func (rt *Runtime) drain() {
	rt.handlers.SetDraining(true) // first, so that no run is loaded for a place
	rt.setActive(false)
	rt.guests.Drain()
	rt.guests.EvictAll()
	ctx, cancel := context.WithTimeout(rt.life.ctx, max(rt.cfg.Drain, leastDrain))
	defer cancel()
	_, _, _ = rt.WaitIdle(ctx) // attempts that have not ended by then are repeated after the next start
	if ctx.Err() == nil || rt.life.ctx.Err() != nil {
		return
	}
	rt.cfg.Logger.Warn("attempts of steps are still running; they are made again after the next start")
}

// Close stops the runtime: guests end at their next call, and attempts are cancelled. What was acknowledged is durable; the
// rest happens again after the next start. Close waits for all guests, but not for handlers.
func (rt *Runtime) Close() {
	if !rt.life.end() {
		return
	}
	rt.life.cancel(guest.ErrClosed)
	rt.writers.Do(func(s *shard.Shard, _ int64) { loseAll(s, guest.ErrClosed) }) // not called for closed writers
	rt.guests.Close()
	rt.life.wg.Wait()
	rt.writers.Close()
	rt.Watchers.ChangedAll()
	rt.life.activity.Wake()
}

func loseAll(s *shard.Shard, cause error) {
	for _, p := range s.Partitions() {
		s.Lose(p, cause)
	}
}

// commit makes a batch durable.
func (rt *Runtime) commit(b *shard.Batch) error {
	began := clock.System().Now()
	err := rt.cfg.Store.Commit(context.WithoutCancel(rt.life.ctx), b.Groups)
	rt.reporter.batch(b, clock.System().Now().Sub(began), err)
	if err != nil && errors.Is(err, store.ErrFailed) {
		rt.Fail(err)
	}
	return err
}

// Fail records that the store has failed, reports it, and drops all partitions. Only the first call has an effect.
func (rt *Runtime) Fail(err error) {
	if !rt.life.fail(err) {
		return
	}
	rt.reporter.storeFailed(err)
	rt.writers.Post(func(s *shard.Shard, _ int64) { loseAll(s, err) })
	rt.Watchers.ChangedAll()
}

// WaitIdle blocks until no work is left that can go on before the clock advances. It returns the instant of the next wake, and
// ok false if there is none.
func (rt *Runtime) WaitIdle(ctx context.Context) (nextUnixMs int64, ok bool, err error) {
	unusable := func() bool { return rt.life.usable() != nil }
	for _, w := range rt.writers {
		w.Post(func(*shard.Shard, int64) {}) // makes the shard check whether the clock was set
	}
	for {
		begun, err := rt.life.activity.Wait(ctx, unusable)
		if err != nil {
			return 0, false, err
		}
		nextUnixMs, ok = rt.writers.NextWake()
		if at, has := rt.cfg.Handlers.Limiter.Next(); has && (!ok || at < nextUnixMs) {
			nextUnixMs, ok = at, true
		}
		if rt.life.activity.Begun() != begun && !unusable() { // work began meanwhile
			continue
		}
		if ok && rt.waitsForRun(ctx, nextUnixMs) {
			continue
		}
		return nextUnixMs, ok, ctx.Err()
	}
}

// waitsForRun blocks until Run begins if a wake is already due that Run would fire. It reports whether it has seen Run begin.
func (rt *Runtime) waitsForRun(ctx context.Context, dueUnixMs int64) bool {
	select {
	case <-rt.life.running:
		return false
	default:
	}
	if dueUnixMs > rt.cfg.Clock.Now().UnixMilli() {
		return false
	}
	select {
	case <-rt.life.running:
		return true
	case <-ctx.Done():
	case <-rt.life.ctx.Done():
	case <-rt.life.failing: // Run returns the failure at once
	}
	return false
}

// Stats are the gauges of a runtime.
type Stats struct {
	shard.Stats        // of all shards
	Instances   int    // live instances
	Waiting     int    // guests that wait for a place
	Partitions  int    // owned partitions
	GuestBytes  int64  // memory charged for guests
	Attempts    int    // attempts that wait for their handlers, or for workers
	Commits     uint64 // durable commits of runs since New
}

// Stats returns the runtime's gauges.
func (rt *Runtime) Stats() Stats {
	n := Stats{Commits: rt.reporter.commits.Load(), Partitions: int(rt.Partitions.count.Load()), Attempts: rt.handlers.Len()}
	n.Instances, n.Waiting, n.GuestBytes = rt.guests.Usage()
	rt.writers.Do(func(s *shard.Shard, now int64) { // not called for closed writers
		x := s.Stats(now)
		n.Runs, n.Timers, n.Queued, n.Commands = n.Runs+x.Runs, n.Timers+x.Timers, n.Queued+x.Queued, n.Commands+x.Commands
		n.OverdueMs = max(n.OverdueMs, x.OverdueMs)
	})
	return n
}
