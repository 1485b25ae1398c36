// Package runtime runs the partitions that a host owns. It makes the writers of their shards, and does for these what they need
// done: it reads and writes the store, has guests and handlers compute, and carries commands from one run to another.
// Everything that the host does to runs goes through it.
//
//	Runs, Partitions, Watchers   what package host calls
//	          |
//	          v
//	   writer.Set     a goroutine for each shard
//	          |
//	          v
//	  partition.Shard  ->  port: desk (guests and attempts), courier (commands), reporter (events, logs), the store
//
// A shard is touched by its writer's goroutine alone, and a run by its shard, or by the guest to which it is lent. All else is
// locked by whoever has it, for a few instructions; what is held longer says so.
package runtime

import (
	"context"
	"errors"
	goruntime "runtime"
	"time"

	"github.com/wfhost/wfhost/host/internal/check"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/partition"
	"github.com/wfhost/wfhost/host/internal/watch"
	"github.com/wfhost/wfhost/host/internal/writer"
	"github.com/wfhost/wfhost/store"
)

// Limits of all shards together, unless they say otherwise.
const (
	// maxShards bounds the writers: one decides about far more runs than a processor computes.
	maxShards = 16
	// busyRuns is how many runs each writer has woken at a time. While some wait for the disk the others compute, and two
	// commits of one millisecond each leave time for some ten wakes; with more, caches and instances are shared by too many.
	busyRuns = 32
	// maxStarts is how many new runs wait for a place with all of their state.
	maxStarts = 4096
	// startBytes bounds the journals of these: some dozens of the largest inputs.
	startBytes = 64 << 20
	// keptBytes bounds the runs that are kept though nothing happens to them: some ten thousand short journals, which
	// need not be read again when their runs wake.
	keptBytes = 32 << 20
	// loadedTimers is how many timers are loaded ahead, of some 120 bytes each.
	loadedTimers = 1 << 17
	// maxCommits is how many group commits of a writer are on their way at a time.
	maxCommits = 4
	// duePortion bounds the wakes of one read of the index.
	duePortion = 1024
)

// Runtime runs the partitions that this host owns.
type Runtime struct {
	Runs       *Runs
	Versions   *module.Versions
	Partitions *Partitions
	Watchers   *watch.Watchers
	Checks     *check.Checker

	cfg      Config
	life     *life
	writers  writer.Set
	guests   *guest.Runner
	handlers *handler.Registry
	reporter *reporter
}

// New acquires partitions and recovers. It starts nothing before Run.
func New(ctx context.Context, cfg Config) (*Runtime, error) {
	l, handlers := newLife(ctx), handler.NewRegistry(cfg.Suspects, cfg.Limiter, cfg.Shared)
	rt := &Runtime{cfg: cfg, life: l, handlers: handlers, Watchers: watch.New()}
	rt.guests = guest.NewRunner(guest.Config{Store: cfg.Store, Engine: cfg.Engine, Clock: cfg.Clock, Logger: cfg.Logger,
		Modules: cfg.Modules, Spaces: cfg.Spaces, Owes: rt.owes, Keep: cfg.Keep, Children: cfg.Children, Suspects: cfg.Suspects,
		Journals: cfg.Journals, Random: cfg.Random, Linger: cfg.Linger, Instances: cfg.Instances,
		ParkBytes: cfg.ParkBytes, WarmBytes: cfg.WarmBytes,
		MemoryBytes: cfg.GuestBytes, Fuel: cfg.Fuel, CPU: cfg.CPU, HostCalls: cfg.HostCalls,
		Handled: handlers.Handled, Fetch: cfg.Fetch, OnWait: cfg.Events.Waits, OnEnd: cfg.Events.Activation})
	rt.Checks = check.New(check.Config{Guests: rt.guests, Store: cfg.Store, Journals: cfg.Journals, Fuel: cfg.Fuel, CPU: cfg.CPU,
		HostCalls: cfg.HostCalls, OnWait: cfg.Events.Waits, OnVerify: cfg.Events.Replay})
	for range min(goruntime.GOMAXPROCS(0), maxShards) {
		rt.writers = append(rt.writers, writer.New(writer.Config{Clock: cfg.Clock, Activity: &l.activity, Commits: maxCommits,
			Commit: rt.commit}))
	}
	rt.Versions = &module.Versions{Usable: l.usable, Store: cfg.Store, Guests: rt.guests}
	rt.Partitions = &Partitions{life: l, store: cfg.Store, writers: rt.writers, logger: cfg.Logger, owner: cfg.Owner}
	rt.Runs = &Runs{life: l, store: cfg.Store, writers: rt.writers, guests: rt.guests, versions: rt.Versions,
		random: cfg.Random, refuse: cfg.Refuse, keepers: cfg.Keepers, ids: cfg.IDs}
	rt.reporter = &reporter{life: l, logger: cfg.Logger, events: cfg.Events, watchers: rt.Watchers, partitions: rt.Partitions,
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

// owes reports whether no run of a namespace may go on, because they have written too much.
func (rt *Runtime) owes(of store.NamespaceID) bool {
	return rt.cfg.Spaces.OwesMs(uint32(of), rt.cfg.Clock.Now().UnixMilli()) > 0
}

// QuotasChanged has the runs looked at that wait for their quotas.
func (rt *Runtime) QuotasChanged() { rt.writers.Post(func(*partition.Shard, int64) {}) }

// startWriters gives each writer a shard, and the shard a port.
func (rt *Runtime) startWriters() {
	n := len(rt.writers)
	limits := partition.Limits{Busy: busyRuns, Starts: max(maxStarts/n, 1), StartBytes: startBytes / int64(n),
		KeptBytes: keptBytes / int64(n), Timers: loadedTimers / n, Portion: duePortion, Commits: maxCommits,
		StartLinger: rt.cfg.StartLinger, Pacer: rt.cfg.Spaces, Clock: rt.Runs.Clocks.Now}
	c := &courier{store: rt.cfg.Store, writers: rt.writers, versions: rt.Versions, random: rt.cfg.Random,
		admit: rt.cfg.Admit, keepers: rt.cfg.Keepers, ids: rt.cfg.IDs}
	handled := rt.handlers.Handled
	for _, w := range rt.writers {
		d := &desk{life: rt.life, writer: w, guests: rt.guests, handlers: rt.handlers, clock: rt.cfg.Clock,
			ended: rt.cfg.Events.Attempt}
		p := &port{desk: d, reporter: rt.reporter, life: rt.life, store: rt.cfg.Store, writers: rt.writers,
			partitions: rt.Partitions, courier: c, writer: w, handled: handled, journals: rt.cfg.Journals,
			clocks: &rt.Runs.Clocks}
		w.Start(partition.NewShard(p, limits, handled))
	}
}

// Handle registers a handler, under its name without prefix, and wakes the runs that wait for it.
func (rt *Runtime) Handle(name string, f handler.Func) {
	rt.handlers.Handle(name, f)
	rt.wakeMissing(name)
}

// HandleRemote is Handle for a handler whose attempts are performed elsewhere.
func (rt *Runtime) HandleRemote(name string, m handler.Remote) {
	rt.handlers.HandleRemote(name, m)
	rt.wakeMissing(name)
}

func (rt *Runtime) wakeMissing(name string) {
	rt.writers.Post(func(s *partition.Shard, now int64) { s.Handled(now, name) }) // a closed one wakes nobody
}

// Run fires timers and activates runs until ctx is done. Then it makes no new guests and attempts, waits until those that
// compute have come to their next wait, and, for as long as Config.Drain, until the attempts that are going on have ended;
// what came of them is durable when it returns. An error means that the store has failed.
func (rt *Runtime) Run(ctx context.Context) error {
	l := rt.life
	l.activity.Begin() // until all shards are active
	rt.guests.Undrain()
	rt.handlers.SetDraining(false)
	err := l.run()
	if err == nil {
		rt.setActive(true)
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
	rt.writers.Do(func(s *partition.Shard, now int64) { s.SetActive(now, active) }) // a closed one is not active
}

const leastDrain = 10 * time.Millisecond // what is about to end does so, and the log speaks of no attempts where none go on

// drain lets what goes on come to rest.
func (rt *Runtime) drain() {
	rt.setActive(false)
	rt.handlers.SetDraining(true)
	rt.guests.Drain()
	rt.guests.EvictAll()
	ctx, cancel := context.WithTimeout(rt.life.ctx, max(rt.cfg.Drain, leastDrain))
	defer cancel()
	_, _, _ = rt.WaitIdle(ctx) // what has not ended by then is made again after the next start
	if ctx.Err() == nil || rt.life.ctx.Err() != nil {
		return
	}
	rt.cfg.Logger.Warn("attempts of steps are still running; they are made again after the next start")
}

// Close stops everything: guests end at their next call, attempts are told to stop. What was acknowledged is durable; the
// rest happens again after the next start. It waits for every guest, and for no handler.
func (rt *Runtime) Close() {
	if !rt.life.end() {
		return
	}
	rt.life.cancel(ErrClosed)
	rt.writers.Do(func(s *partition.Shard, _ int64) { loseAll(s, ErrClosed) }) // one that is closed has none
	rt.guests.Close()
	rt.life.wg.Wait()
	rt.writers.Close()
	rt.Watchers.ChangedAll()
	rt.life.activity.Wake()
}

func loseAll(s *partition.Shard, cause error) {
	for _, p := range s.Partitions() {
		s.Lose(p, cause)
	}
}

// commit makes a batch durable.
func (rt *Runtime) commit(b *partition.Batch) error {
	began := budgetClock.Now()
	err := rt.cfg.Store.Commit(context.WithoutCancel(rt.life.ctx), b.Groups)
	rt.reporter.batch(b, budgetClock.Now().Sub(began), err)
	if err != nil && errors.Is(err, store.ErrFailed) {
		rt.Fail(err)
	}
	return err
}

// Fail stops everything after the store has failed.
func (rt *Runtime) Fail(err error) {
	if !rt.life.fail(err) {
		return
	}
	rt.reporter.storeFailed(err)
	rt.writers.Post(func(s *partition.Shard, _ int64) { loseAll(s, err) })
	rt.Watchers.ChangedAll()
}

// WaitIdle waits until nothing happens any more unless time passes, and returns the instant of the next wake as of then,
// false if there is none.
func (rt *Runtime) WaitIdle(ctx context.Context) (nextUnixMs int64, ok bool, err error) {
	unusable := func() bool { return rt.life.usable() != nil }
	for _, w := range rt.writers {
		w.Post(func(*partition.Shard, int64) {}) // which sees whether the clock was set
	}
	for {
		begun, err := rt.life.activity.Wait(ctx, unusable)
		if err != nil {
			return 0, false, err
		}
		nextUnixMs, ok = rt.writers.NextWake()
		if at, has := rt.cfg.Limiter.Next(); has && (!ok || at < nextUnixMs) {
			nextUnixMs, ok = at, true
		}
		if rt.life.activity.Begun() != begun && !unusable() { // a timer has fired meanwhile
			continue
		}
		if ok && rt.waitsForRun(ctx, nextUnixMs) {
			continue
		}
		return nextUnixMs, ok, ctx.Err()
	}
}

// waitsForRun waits until Run begins, if something is due that it would do. It reports whether it has waited for that.
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
	case <-rt.life.failing: // Run only says so then
	}
	return false
}

// Stats is what the runtime holds at the moment.
type Stats struct {
	partition.Stats        // of all shards
	Instances       int    // live instances
	Waiting         int    // guests that wait for a place
	Partitions      int    // that this host owns
	GuestBytes      int64  // as they count
	Commits         uint64 // of runs, since New
}

// Stats returns the numbers.
func (rt *Runtime) Stats() Stats {
	n := Stats{Commits: rt.reporter.commits.Load(), Partitions: int(rt.Partitions.count.Load())}
	n.Instances, n.Waiting, n.GuestBytes = rt.guests.Held()
	rt.writers.Do(func(s *partition.Shard, now int64) { // a closed one holds nothing
		x := s.Stats(now)
		n.Runs, n.Timers, n.Queued, n.Commands = n.Runs+x.Runs, n.Timers+x.Timers, n.Queued+x.Queued, n.Commands+x.Commands
		n.OverdueMs = max(n.OverdueMs, x.OverdueMs)
	})
	return n
}
