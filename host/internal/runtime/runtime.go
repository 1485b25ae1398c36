// Package runtime runs shards: it gives each of them a goroutine, a clock and a store, and does for them what they need
// done. Everything that the host does to runs goes through it.
//
// What holds which lock: Runtime.mu guards the registries (handlers, watchers, missing rooms) and the state of the
// runtime; it is held for a few instructions, and nothing is called under it. writer.mu guards a mailbox, likewise. A
// shard is touched by its writer's goroutine alone, and a run by its shard, or by the guest to which it is lent.
package runtime

import (
	"context"
	"log/slog"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/partition"
	"github.com/wfhost/wfhost/store"
)

// ErrClosed says that the runtime is closing; nothing is accepted any more.
var ErrClosed = guest.ErrClosed

// Config is what a Runtime is made from. All fields but the limits are required.
type Config struct {
	Store  store.Store
	Engine engine.Engine
	Clock  clock.Clock
	Logger *slog.Logger
	Owner  string // name of this host, for people
	Random func(p []byte)
	// Partitions are those to be acquired at the beginning; nil = all.
	Partitions []store.PartitionID
	// Linger is how long an instance is kept while an attempt of one of its steps runs.
	Linger time.Duration
	// StartLinger is how long a start waits for its first activation, to be committed together with it.
	StartLinger time.Duration
	// Drain is how long Run waits, at its end, for attempts that are going on.
	Drain time.Duration
	// Instances is how many guests compute at a time, and ParkBytes bounds the memory of those that wait for a commit or an
	// attempt.
	Instances int
	ParkBytes int64
	// Fuel bounds the instructions, about, that a workflow executes between two waits.
	Fuel int64
	// CPU bounds the time that they take. A machine that needs longer is at fault, not the workflow.
	CPU time.Duration
	// HostCalls bounds the calls between two waits.
	HostCalls int
	// Fetch performs a request of a body or step function under the grants of its version.
	Fetch func(ctx context.Context, grants store.Grants, run store.RunKey, request []byte) ([]byte, error)
	// Events are told what happens.
	Events Events
}

// Defaults of Config.
const (
	// DefaultLinger: most steps end within it, and keeping the instance saves a replay.
	DefaultLinger = time.Second
	// DefaultInstances admits as many instances as the memory budget holds at their largest.
	DefaultInstances = abi.MaxActivationMemoryBytes / abi.MaxMemoryBytes
	// DefaultParkBytes keeps a few hundred Go guests that have written a few dozen pages each.
	DefaultParkBytes = 256 << 20
	// DefaultStartLinger: a Go guest comes to its first step within it; one that computes longer costs a commit more.
	DefaultStartLinger = 50 * time.Millisecond
	// DefaultDrain: most steps end within it, and supervisors of processes wait longer before they kill.
	DefaultDrain = 10 * time.Second
)

// Limits of all shards together.
const (
	// maxShards bounds the writers: one decides about far more runs than a processor computes.
	maxShards = 16
	// maxBusy is how many runs are woken at a time.
	maxBusy = 512
	// maxStarts is how many new runs wait for a place with all of their state.
	maxStarts = 4096
	// keptBytes bounds the runs that are kept though nothing happens to them: some ten thousand short journals, which
	// need not be read again when their runs wake.
	keptBytes = 64 << 20
	// loadedTimers is how many timers are loaded ahead, of some 120 bytes each.
	loadedTimers = 1 << 17
	// duePortion bounds the wakes of one read of the index.
	duePortion = 1024
)

// Runtime runs the partitions that this host owns.
type Runtime struct {
	cfg     Config
	writers []*writer
	guests  *guest.Runner

	mu       sync.Mutex
	handlers map[string]Handler
	rooms    map[string]chan struct{} // of calls of handlers, by name; "" = all
	watchers map[store.RunKey]map[chan struct{}]struct{}
	running  bool
	closed   bool
	failed   error
	failing  chan struct{} // closed when the store has failed

	work    atomic.Int64 // what goes on: zero means that nothing happens until time passes
	idleMu  sync.Mutex
	idle    chan struct{} // closed when work is zero; nil if nobody waits
	commits atomic.Uint64 // of runs, that became durable

	count     atomic.Int32                 // of partitions that this host owns
	acquiring [store.Partitions]sync.Mutex // held while a partition is acquired or released

	versions sync.RWMutex // held for reading by whoever chooses a version, until the run that has it is durable

	ctx    context.Context //nolint:containedctx // it ends with Close
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // of what reads and writes, and of attempts
}

// New acquires partitions and recovers. It starts nothing before Run.
func New(ctx context.Context, cfg Config) (*Runtime, error) {
	rt := &Runtime{cfg: cfg, handlers: map[string]Handler{}, watchers: map[store.RunKey]map[chan struct{}]struct{}{},
		failing: make(chan struct{})}
	rt.ctx, rt.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	rt.guests = guest.NewRunner(guest.Config{Store: cfg.Store, Engine: cfg.Engine, Clock: cfg.Clock, Logger: cfg.Logger,
		Random: cfg.Random, Linger: cfg.Linger, Instances: cfg.Instances, ParkBytes: cfg.ParkBytes,
		MemoryBytes: abi.MaxActivationMemoryBytes, Fuel: cfg.Fuel, CPU: cfg.CPU, HostCalls: cfg.HostCalls,
		Handled: rt.handled, Fetch: cfg.Fetch, OnWait: cfg.Events.Waits,
		OnEnd: cfg.Events.Activation})
	n := min(goruntime.GOMAXPROCS(0), maxShards)
	limits := partition.Limits{Busy: max(maxBusy/n, 1), Starts: max(maxStarts/n, 1), KeptBytes: keptBytes / int64(n),
		Timers: loadedTimers / n, Portion: duePortion, StartLinger: cfg.StartLinger}
	for range n {
		rt.writers = append(rt.writers, newWriter(rt, limits))
	}
	ids := cfg.Partitions
	if ids == nil {
		for p := range store.PartitionID(store.Partitions) {
			ids = append(ids, p)
		}
	}
	if err := rt.Acquire(ctx, ids...); err != nil {
		rt.Close()
		return nil, err
	}
	rt.wg.Go(rt.watchInboxes)
	return rt, nil
}

// writerOf returns the writer of a partition.
func (rt *Runtime) writerOf(p store.PartitionID) *writer { return rt.writers[int(p)%len(rt.writers)] }

// Run fires timers and activates runs until ctx is done. Then it makes no new guests and attempts, waits until those that
// compute have come to their next wait, and, for as long as Config.Drain, until the attempts that are going on have ended;
// what came of them is durable when it returns. An error means that the store has failed.
func (rt *Runtime) Run(ctx context.Context) error {
	if err := rt.setRunning(true); err != nil {
		return err
	}
	rt.guests.Undrain()
	rt.setActive(true)
	select {
	case <-ctx.Done():
	case <-rt.failing:
	case <-rt.ctx.Done():
	}
	rt.drain()
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.running = false
	return rt.failed
}

func (rt *Runtime) setRunning(running bool) error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.closed {
		return ErrClosed
	}
	if rt.failed != nil {
		return rt.failed
	}
	rt.running = running
	return nil
}

func (rt *Runtime) setActive(active bool) {
	for _, w := range rt.writers {
		_ = w.do(func(s *partition.Shard, now int64) { s.SetActive(now, active) }) // a closed one is not active
	}
}

// drain lets what goes on come to rest.
func (rt *Runtime) drain() {
	rt.setActive(false)
	rt.guests.Drain()
	rt.guests.EvictAll()
	ctx, cancel := context.WithTimeout(rt.ctx, max(rt.cfg.Drain, 0))
	defer cancel()
	_, _, _ = rt.WaitIdle(ctx) // what has not ended by then is made again after the next start
	if ctx.Err() == nil || rt.ctx.Err() != nil {
		return
	}
	rt.cfg.Logger.Warn("attempts of steps are still running; they are made again after the next start")
}

// Close stops everything: guests end at their next call, attempts are told to stop. What was acknowledged is durable; the
// rest happens again after the next start. It waits for every guest, and for no handler.
func (rt *Runtime) Close() {
	rt.mu.Lock()
	if rt.closed {
		rt.mu.Unlock()
		return
	}
	rt.closed = true
	rt.mu.Unlock()
	rt.cancel(ErrClosed)
	for _, w := range rt.writers {
		_ = w.do(func(s *partition.Shard, _ int64) { loseAll(s, ErrClosed) }) // one that is closed has none
	}
	rt.guests.Close()
	rt.wg.Wait()
	for _, w := range rt.writers {
		w.close()
	}
	rt.notifyAll()
	rt.rest()
}

func loseAll(s *partition.Shard, cause error) {
	for _, p := range s.Partitions() {
		s.Lose(p, cause)
	}
}

// fail stops everything after the store has failed.
func (rt *Runtime) fail(err error) {
	rt.mu.Lock()
	first := rt.failed == nil && !rt.closed
	if first {
		rt.failed = err
		close(rt.failing)
	}
	rt.mu.Unlock()
	if !first {
		return
	}
	rt.cfg.Logger.Error("the store has failed, nothing is accepted any more", "cause", err)
	if f := rt.cfg.Events.StoreFailed; f != nil {
		f(err)
	}
	for _, w := range rt.writers {
		_ = w.post(func(s *partition.Shard, _ int64) { loseAll(s, err) })
	}
	rt.notifyAll()
}

// usable returns why nothing may be accepted, nil if it may.
func (rt *Runtime) usable() error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	switch {
	case rt.closed:
		return ErrClosed
	case rt.failed != nil:
		return rt.failed
	}
	return nil
}

// begin and done count what goes on. Whatever causes something else counts that before it is done itself, so that zero means
// that nothing happens any more.
func (rt *Runtime) begin() { rt.work.Add(1) }

func (rt *Runtime) done() {
	if rt.work.Add(-1) == 0 {
		rt.rest()
	}
}

// rest tells those that wait for it that nothing happens any more.
func (rt *Runtime) rest() {
	rt.idleMu.Lock()
	defer rt.idleMu.Unlock()
	if rt.idle != nil {
		close(rt.idle)
		rt.idle = nil
	}
}

// background does something in a goroutine that Close waits for.
func (rt *Runtime) background(f func()) {
	rt.begin()
	rt.wg.Go(func() {
		defer rt.done()
		f()
	})
}

// WaitIdle waits until nothing happens any more unless time passes, and returns the instant of the next wake as of then,
// false if there is none.
func (rt *Runtime) WaitIdle(ctx context.Context) (nextUnixMs int64, ok bool, err error) {
	for {
		rt.idleMu.Lock()
		if rt.work.Load() == 0 || rt.usable() != nil {
			rt.idleMu.Unlock()
			nextUnixMs, ok = rt.nextWake()
			return nextUnixMs, ok, nil
		}
		if rt.idle == nil {
			rt.idle = make(chan struct{})
		}
		idle := rt.idle
		rt.idleMu.Unlock()
		if rt.work.Load() == 0 {
			rt.rest()
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return 0, false, ctx.Err()
		}
	}
}

func (rt *Runtime) nextWake() (unixMs int64, ok bool) {
	for _, w := range rt.writers {
		if at := w.nextWake.Load(); at != noWake && (!ok || at < unixMs) {
			unixMs, ok = at, true
		}
	}
	return unixMs, ok
}

// Stats is what the runtime holds at the moment.
type Stats struct {
	Runs      int // to which something happens
	Instances int // live instances
	Timers    int
	Queued    int    // new runs that wait for an instance
	Commits   uint64 // of runs, since New
}

// Stats returns the numbers.
func (rt *Runtime) Stats() Stats {
	n := Stats{Instances: rt.guests.Instances(), Commits: rt.commits.Load()}
	for _, w := range rt.writers {
		_ = w.do(func(s *partition.Shard, _ int64) { // a closed one holds nothing
			x := s.Stats()
			n.Runs, n.Timers, n.Queued = n.Runs+x.Runs, n.Timers+x.Timers, n.Queued+x.Queued
		})
	}
	return n
}

// Watch returns a channel that receives whenever something of the run became durable, until stop is called.
func (rt *Runtime) Watch(key store.RunKey) (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.watchers[key] == nil {
		rt.watchers[key] = map[chan struct{}]struct{}{}
	}
	rt.watchers[key][c] = struct{}{}
	return c, func() {
		rt.mu.Lock()
		defer rt.mu.Unlock()
		delete(rt.watchers[key], c)
		if len(rt.watchers[key]) == 0 {
			delete(rt.watchers, key)
		}
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// changed tells those that watch a run.
func (rt *Runtime) changed(key store.RunKey) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for c := range rt.watchers[key] {
		notify(c)
	}
}

func (rt *Runtime) notifyAll() {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, set := range rt.watchers {
		for c := range set {
			notify(c)
		}
	}
}
