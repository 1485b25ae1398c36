// Package sched owns runs. It is where the pure core (journal, replay) meets the store, the engine and the
// clock: it loads a run when something happens to it, activates it, commits what it did, starts the attempts of
// its steps, and lets go of it when it sleeps. A sleeping run is a key in the store's wake index and, if it is
// due within the minute, an item of the wheel: no goroutine, no instance, no owner.
//
// Durability: everything that a run has appended is durable before an attempt of a step starts, before the run
// is given up, and before anything of it is visible outside (a result, a status, an acknowledgement).
package sched

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/wheel"
	"github.com/wfhost/wfhost/store"
)

// Errors of the scheduler.
var (
	// ErrClosed: the scheduler is closing; nothing is accepted any more.
	ErrClosed = errors.New("host is closed")
	// ErrTerminal: the run has ended, and an end is final.
	ErrTerminal = errors.New("run has ended")
)

// Handler performs a step in Go. It gets the step's input and answers its result.
type Handler func(ctx context.Context, a Attempt, input []byte) ([]byte, error)

// Attempt says which attempt of which step a handler performs.
type Attempt struct {
	Run            store.RunKey
	Workflow       string
	Version        uint32
	Step           string
	Seq            store.Seq // of the call's entry
	Number         uint32    // from 1
	Attempts       int       // at most; 0 = no limit
	IdempotencyKey string
}

// Config is what a scheduler is made from. All fields but the limits are required.
type Config struct {
	Store  store.Store
	Engine engine.Engine
	Clock  clock.Clock
	Logger *slog.Logger
	Owner  string // name of this host, for people
	Random func(p []byte)
	// Linger is how long an instance is kept while an attempt of one of its steps runs.
	Linger time.Duration
	// StartLinger is how long a start waits for its first activation, to be committed together with it.
	StartLinger time.Duration
	// Activations is how many guests compute at a time.
	Activations int
	// ParkBytes bounds the memory of instances whose guests wait for a commit or an attempt.
	ParkBytes int64
	// Fuel bounds the instructions, about, that a workflow executes between two waits.
	Fuel int64
	// CPU bounds the time that they take. A machine that needs longer is at fault, not the workflow.
	CPU time.Duration
	// HostCalls bounds the calls between two waits.
	HostCalls int
	// Fetch performs a request of a body or step function under the grants of its version; nil means that none is
	// performed. Request and answer are framed as the ABI says. An error that is an *abi.Error is the guest's.
	Fetch func(ctx context.Context, grants store.Grants, runID string, request []byte) ([]byte, error)
	// OnWait, if set, sees the memory of every instance whose workflow waits. Tests compare hashes with it.
	OnWait func(run store.RunKey, consumed uint64, hash func() [32]byte)
	// OnCommit, if set, sees the state of every run whose commit has become durable. Measurements take times with it.
	OnCommit func(st *store.RunState)
}

// Defaults of Config.
const (
	// DefaultLinger: most steps end within it, and keeping the instance saves a replay.
	DefaultLinger = time.Second
	// DefaultActivations admits as many instances as the memory budget holds at their largest.
	DefaultActivations = abi.MaxActivationMemoryBytes / abi.MaxMemoryBytes
	// DefaultParkBytes keeps a thousand Go guests that have written a few dozen pages each.
	DefaultParkBytes = 256 << 20
	// maxWorkers bounds the goroutines that serve the queue: they wait for slots and for the disk, and more
	// of them than this share no more fsyncs.
	maxWorkers = 256
	// startLinger is how long a start waits for its first activation, to be committed together with it.
	// DefaultStartLinger: a Go guest comes to its first step within it; one that computes longer costs a commit more.
	DefaultStartLinger = 50 * time.Millisecond
)

// Scheduler owns the runs of a store.
type Scheduler struct {
	cfg   Config
	parts [store.Partitions]store.Partition
	slots *slots

	mu       sync.Mutex
	owners   map[store.RunKey]*owner
	kept     kept // those without users
	handlers map[string]Handler
	missing  map[string]map[store.RunKey]struct{} // runs that wait for a handler, by its name
	rooms    map[string]chan struct{}             // of calls of handlers, by name; "" = all
	modules  map[store.Digest]*loadedModule
	granted  map[versionKey]store.Grants
	watchers map[store.RunKey]map[chan struct{}]struct{}
	wheel    *wheel.Wheel[store.RunKey]
	bounds   bounds
	fronts   [store.Partitions]front
	loadNext int  // the partition that is loaded next, if it is to be
	stalled  bool // a partition is to be loaded when the workers have less before them
	inboxes  inboxes
	high     []job // queue: inboxes, and runs to which something has happened
	low      []job // queue: runs that were started; they come after high and after the wheel's that are due
	dueNext  bool  // high and the wheel take turns
	workers  int   // those that stepped aside not counted
	aside    int
	starting int             // workers that have not taken a job since they were called
	spare    []chan struct{} // workers without work, which a send calls
	busy     int             // queued runs, workers and attempts: zero means nothing happens until time passes
	idle     chan struct{}
	running  bool
	closed   bool
	failed   error

	commits atomic.Uint64 // that became durable

	versions sync.RWMutex // held for reading by whoever chooses a version, until the run that has it is durable

	kick   chan struct{} // the timer loop looks again
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// New acquires all partitions of the store and recovers: it starts nothing before Run.
func New(ctx context.Context, cfg Config) (*Scheduler, error) {
	s := &Scheduler{cfg: cfg, missing: map[string]map[store.RunKey]struct{}{}, owners: map[store.RunKey]*owner{},
		handlers: map[string]Handler{},
		modules:  map[store.Digest]*loadedModule{}, watchers: map[store.RunKey]map[chan struct{}]struct{}{},
		slots: newSlots(cfg.Activations, cfg.ParkBytes), kick: make(chan struct{}, 1),
		bounds: defaultBounds}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.acquireAll(ctx); err != nil {
		return nil, err
	}
	now := s.nowMs()
	s.wheel = wheel.New[store.RunKey](now - 1)
	for p := range s.fronts {
		s.fronts[p].far = -1
	}
	return s, nil
}

// acquireAll acquires all partitions at a time: their new epochs share fsyncs.
func (s *Scheduler) acquireAll(ctx context.Context) error {
	var wg sync.WaitGroup
	var errs [store.Partitions]error
	for p := range store.PartitionID(store.Partitions) {
		wg.Go(func() {
			part, err := s.cfg.Store.Acquire(ctx, p, s.cfg.Owner, 0)
			if err != nil {
				errs[p] = fmt.Errorf("acquire partition %d: %w", p, err)
			}
			s.parts[p] = part
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Scheduler) nowMs() int64 { return s.cfg.Clock.Now().UnixMilli() }

// Handle registers a handler, under its name without prefix, and wakes the runs that wait for it.
func (s *Scheduler) Handle(name string, h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers[name] = h
	for run := range s.missing[name] {
		s.enqueueLocked(run, true)
	}
	delete(s.missing, name)
}

// miss remembers that a run waits for a handler that is not registered.
func (s *Scheduler) miss(name string, run store.RunKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.missing[name] == nil {
		s.missing[name] = map[store.RunKey]struct{}{}
	}
	s.missing[name][run] = struct{}{}
}

func (s *Scheduler) handler(name string) Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handlers[name]
}

// Run fires timers and activates runs until ctx is done; then it lets the activations and attempts that are
// going on come to their next rest, and returns.
func (s *Scheduler) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	if s.running {
		s.mu.Unlock()
		return errors.New("host is running already")
	}
	s.running = true
	for p := range store.PartitionID(store.Partitions) { // what the host before left
		s.kickInboxLocked(p)
	}
	s.wakeWorkersLocked()
	s.mu.Unlock()
	err := s.timerLoop(ctx)
	s.mu.Lock()
	s.running = false
	s.mu.Unlock()
	s.slots.evictAll()
	s.waitWorkers()
	return err
}

// Close stops everything: activations end at their next call, attempts are told to stop. What was acknowledged
// is durable; the rest happens again after the next start.
func (s *Scheduler) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	owners := make([]*owner, 0, len(s.owners))
	for _, o := range s.owners {
		owners = append(owners, o)
	}
	for _, set := range s.watchers {
		for c := range set {
			notify(c)
		}
	}
	s.mu.Unlock()
	s.cancel()
	for _, o := range owners {
		o.stop(ErrClosed)
	}
	s.slots.evictAll()
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.modules {
		m.close()
	}
}

// fail stops everything after the store has failed.
func (s *Scheduler) fail(err error) {
	s.mu.Lock()
	first := s.failed == nil
	if first {
		s.failed = err
	}
	s.mu.Unlock()
	if first {
		s.cfg.Logger.Error("the store has failed, nothing is accepted any more", "cause", err)
		s.kickTimer()
	}
}

// usable says whether anything may be accepted.
func (s *Scheduler) usable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.failed != nil:
		return s.failed
	}
	return nil
}

// enqueue puts a run into the queue: woken runs go before new ones.
func (s *Scheduler) enqueue(run store.RunKey, woken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enqueueLocked(run, woken)
}

func (s *Scheduler) enqueueLocked(run store.RunKey, woken bool) {
	if s.closed || s.failed != nil {
		return
	}
	if woken {
		s.high = append(s.high, job{run: run})
	} else {
		s.low = append(s.low, job{run: run})
	}
	s.busy++
	s.wakeWorkersLocked()
}

// begin and done count what goes on beside the queue.
func (s *Scheduler) begin() {
	s.mu.Lock()
	s.busy++
	s.mu.Unlock()
}

func (s *Scheduler) done() {
	s.mu.Lock()
	s.busy--
	s.notifyIdleLocked()
	s.mu.Unlock()
}

func (s *Scheduler) notifyIdleLocked() {
	if s.idle != nil && (s.busy == 0 || s.workers+s.aside == 0 && !s.running) {
		close(s.idle)
		s.idle = nil
	}
}

// WaitIdle waits until nothing happens any more unless time passes, and gives the instant of the next wake as of
// then, false if there is none.
func (s *Scheduler) WaitIdle(ctx context.Context) (nextUnixMs int64, ok bool, err error) {
	for {
		s.mu.Lock()
		if s.busy == 0 || s.closed || s.failed != nil {
			nextUnixMs, ok = s.nextWakeLocked()
			s.mu.Unlock()
			return nextUnixMs, ok, nil
		}
		if s.idle == nil {
			s.idle = make(chan struct{})
		}
		idle := s.idle
		s.mu.Unlock()
		select {
		case <-idle:
		case <-ctx.Done():
			return 0, false, ctx.Err()
		}
	}
}

// waitWorkers waits until the workers have come to rest.
func (s *Scheduler) waitWorkers() {
	for {
		s.mu.Lock()
		if s.workers+s.aside == 0 {
			s.mu.Unlock()
			return
		}
		if s.idle == nil {
			s.idle = make(chan struct{})
		}
		idle := s.idle
		s.mu.Unlock()
		<-idle
	}
}

// Watch gives a channel that receives whenever something of the run became durable, until the answer is called.
func (s *Scheduler) Watch(run store.RunKey) (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers[run] == nil {
		s.watchers[run] = map[chan struct{}]struct{}{}
	}
	s.watchers[run][c] = struct{}{}
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers[run], c)
		if len(s.watchers[run]) == 0 {
			delete(s.watchers, run)
		}
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *Scheduler) changed(run store.RunKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.watchers[run] {
		notify(c)
	}
}

// Stats is what the scheduler holds at the moment.
type Stats struct {
	Owners    int // runs to which something happens
	Instances int // live instances
	Wheel     int // timers in the wheel
	Queued    int
	Commits   uint64 // of runs, since New
}

// Stats gives the numbers.
func (s *Scheduler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Owners: len(s.owners) - s.kept.lru.Len(), Instances: s.slots.inUse(), Wheel: s.wheel.Len(),
		Queued: s.queuedLocked(), Commits: s.commits.Load()}
}
