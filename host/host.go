// Package host embeds durable workflows into a Go program. A workflow is a WebAssembly module that sleeps, runs steps
// and waits. The host records what it does in a journal, frees its instance while it sleeps, and continues it from
// its journal: after a second, after a year, after a kill -9.
//
//	h, err := host.Open(ctx, host.Config{Dir: "data"})
//	defer h.Close()
//	host.HandleStep(h, "charge", func(ctx context.Context, in Charge) (Receipt, error) { … })
//	go h.Run(ctx)
//	v, err := h.Upload(ctx, "orders", wasm, host.AllowStep("charge"))
//	run, err := h.Start(ctx, "orders", order, host.WithRunID("order-42"))
//	receipt, err := host.Result[Receipt](ctx, h, run.ID)
//
// Open recovers the data and starts nothing. Activations begin with Run, when the handlers are known.
//
// When a call returns without an error, its effect is durable: an upload, a start, a cancel, a wake has been fsynced.
// A result or status that is shown has been fsynced before. An attempt of a step begins after everything that led to
// it has been fsynced.
package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/datadir"
	"github.com/wfhost/wfhost/host/internal/egress"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/limits"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/quarantine"
	"github.com/wfhost/wfhost/host/internal/retention"
	"github.com/wfhost/wfhost/host/internal/runtime"
	"github.com/wfhost/wfhost/host/internal/schedule"
	"github.com/wfhost/wfhost/host/internal/schema"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/backup"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// Host runs workflows. It is safe for concurrent use.
//
// Its methods for workflows and runs, from Upload to Wait, act on the namespace "default". Run, Close, Stats,
// WaitIdle and the registration of handlers concern the whole host.
type Host struct {
	scope
	waits
	cfg             Config
	store           store.Store
	below           store.Store // the store without Config.Codec
	ownStore        bool
	engine          engine.Engine
	skip            *clock.Fake // the clock of SkipSleeps
	copied          bool        // opened as a copy, without any partition
	rt              *runtime.Runtime
	workers         *performer
	remotes         sync.Map // handlers for workers: true by name
	handlers        registrations
	sweeper         *retention.Sweeper
	iterations      *retention.Iterations
	nextSweep       atomic.Pointer[time.Time] // shown by Stats
	keeper          *schedule.Keeper
	workflowLimiter *limits.WorkflowLimiter
	quotas          *limits.Quotas
	refusals        admission.RefusalDelay[string] // of starts, by namespace
	notices         *notices                       // nil if the log discards them
	checks          checking
	exports         exporting
	importing       importing
	setting         sync.Mutex        // held by SetQuota, so that memory and store agree
	member          *member           // nil if the host is of no cluster
	suspects        *quarantine.Watch // nil watches nothing
	watchLock       *os.File          // held while the host watches in a folder that is not its own
	journals        *admission.Journals
	disk            *datadir.DiskMonitor
	schemas         schema.Cache
	named           module.NamesCache // the names in descriptions of modules
	names           sync.Map          // of namespaces: string by store.NamespaceID
	several         atomic.Bool       // a namespace besides the default one exists
	closing         sync.Once
	closed          chan struct{}
	failure         atomic.Pointer[error] // of the store, as reported by the runtime
}

// Open opens the data and recovers it. Activations begin with Run.
func Open(ctx context.Context, cfg Config) (h *Host, err error) {
	h = &Host{cfg: cfg.withDefaults(), closed: make(chan struct{}), exports: exporting{clock: clock.System()},
		importing: importing{permits: make(chan struct{}, maxImports)}}
	h.scope.init(h, store.DefaultNamespace)
	defer func() {
		if err != nil {
			err = errors.Join(translate(err), h.release(ctx))
		}
	}()
	if cfg.SkipSleeps {
		h.skip = clock.NewFake(h.cfg.Clock.Now())
		h.cfg.Clock = h.skip
	}
	cache := h.cfg.CacheDir
	if h.cfg.Dir != "" {
		cache = cmp.Or(cache, filepath.Join(h.cfg.Dir, "cache"))
		if err := datadir.CheckData(h.cfg.Dir, h.cfg.Logger); err != nil {
			return h, err
		}
	}
	h.store = cfg.Store
	if h.store == nil {
		if err := h.openStore(); err != nil {
			return h, err
		}
	}
	for _, step := range []func(context.Context) error{h.cfg.check, h.join, h.sealStore, h.openNamespaces, h.openQuotas,
		h.removeSpools} {
		if err := step(ctx); err != nil {
			return h, err
		}
	}
	h.disk = h.newDiskMonitor()
	h.workers = h.newPerformer()
	h.engine, err = h.newEngine(ctx, cache)
	if err != nil {
		return h, err
	}
	rc := h.runtimeConfig()
	if cfg.Partitions != nil {
		rc.Partitions, err = partitionIDs(cfg.Partitions)
		if err != nil {
			return h, err
		}
	}
	keep, err := cfg.keep()
	if err != nil {
		return h, err
	}
	h.iterations = retention.NewIterations(h.store.Retentions, keep)
	rc.Guests.Keep, rc.IDs = h.keepsIterations, h.keepsIDsMs
	h.copied = h.IsCopy()
	if h.copied || h.member != nil {
		rc.Partitions = []store.PartitionID{}
	}
	if err := h.openWatch(ctx); err != nil {
		return h, err
	}
	rc.Watch = h.suspects
	h.rt, err = runtime.New(ctx, rc)
	if err == nil {
		h.sweeper = h.newSweeper(keep)
		h.begin(ctx)
		err = h.rereadRuns(ctx)
		h.member.begin()
	}
	return h, err
}

func (h *Host) newPerformer() *performer {
	b := handler.NewBroker(h.cfg.Clock, h.cfg.Random)
	if h.member != nil {
		b.Unasked = h.member.offer
	}
	return &performer{b, h.newProgress()}
}

// runtimeConfig returns the runtime's configuration, without the parts that are read from the store.
func (h *Host) runtimeConfig() runtime.Config {
	c := &h.cfg
	rc := runtime.Config{Store: h.store, Clock: c.Clock, Logger: c.Logger, Owner: owner(), Random: c.Random,
		StartLinger: c.StartLinger, Drain: c.Drain, Refuse: h.refuseCopy, Admit: h.admit, Keepers: h.newKeepers(), Quotas: h.quotas}
	rc.Handlers = handler.Config{Limiter: h.newHandlerLimiter(), Shared: h.several.Load, MaxCallsPerHandler: c.MaxCallsPerHandler,
		MaxCalls: c.MaxCalls}
	rc.Guests = guest.Config{Engine: h.engine, Linger: c.Linger, MaxInstances: c.MaxInstances, GuestBytes: c.GuestBytes,
		ParkBytes: max(c.ParkBytes, 0), WarmBytes: max(c.WarmBytes, 0), Modules: c.moduleLimits(), Journals: h.roomForJournals(),
		MaxFuel: c.MaxFuel, MaxSegmentCPU: c.MaxSegmentCPU, MaxHostCalls: abi.MaxHostCalls, MaxChildren: c.MaxChildren}
	rc.Guests.Fetch = func(ctx context.Context, g store.Grants, _ store.RunKey, request []byte) ([]byte, error) {
		return egress.Fetch(ctx, egress.NewPolicy(g.HTTPHosts, g.Secrets, c.Secrets), request)
	}
	if h.member != nil {
		rc.Owner, rc.Lease, rc.Notify = c.Cluster.Name, c.Cluster.Lease, h.member.notify
	}
	h.notices = newNotices(h.cfg.Logger, h.cfg.Codec == nil)
	rc.Events = h.runtimeEvents()
	rc.Events.Replay = h.cfg.replayed
	return rc
}

// openStore opens the store in the host's folder.
func (h *Host) openStore() error {
	h.ownStore = true
	if err := backup.Unfinished(h.cfg.Dir); err != nil {
		return err
	}
	dir := filepath.Join(h.cfg.Dir, storeName)
	if err := datadir.CheckStore(dir, h.cfg.Logger); err != nil {
		return err
	}
	s, err := pebblestore.Open(dir, pebblestore.Options{Logger: h.cfg.Logger, Raised: h.cfg.Events.StoreRaised,
		NowMs: func() int64 { return h.cfg.Clock.Now().UnixMilli() }})
	if err != nil {
		return err
	}
	h.store = s
	return nil
}

// moduleLimits returns the limits of modules in memory, with a callback that logs evictions.
func (c *Config) moduleLimits() module.Limits {
	return module.Limits{Idle: c.ModuleIdle, Bytes: max(c.ModuleBytes, 0), Left: func(d store.Digest, bytes int64) {
		c.Logger.Debug("module has left memory", "module", d, "bytes", bytes)
	}}
}

// owner names this host for people who inspect a store.
func owner() string {
	name, err := os.Hostname()
	if err != nil {
		name = "host"
	}
	return fmt.Sprintf("%s/%d", name, os.Getpid())
}

func secureRandom(p []byte) {
	if _, err := rand.Read(p); err != nil {
		panic(err) // crypto/rand.Read never fails since Go 1.24
	}
}

// Run activates runs and fires timers until ctx is done. Then it waits for work in flight, up to Config.Drain for
// attempts of steps, and returns nil. An error means that the store has failed: the host accepts no more calls.
func (h *Host) Run(ctx context.Context) error {
	var sweeps sync.WaitGroup
	defer sweeps.Wait()
	sweeping, cancel := context.WithCancel(ctx)
	defer cancel()
	if h.cfg.SweepEvery > 0 {
		sweeps.Go(func() { h.keepSwept(sweeping) })
	}
	sweeps.Go(func() { h.watchDisk(sweeping) })
	sweeps.Go(func() { h.watchStore(sweeping) })
	sweeps.Go(func() { h.performRequests(sweeping) })
	h.member.want(true)
	defer context.AfterFunc(ctx, func() { h.member.want(false) })()
	defer h.leavePartitions(ctx)
	if h.skip != nil {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go h.skipSleeps(ctx)
		return translate(h.rt.Run(ctx))
	}
	return translate(h.rt.Run(ctx))
}

// leavePartitions gives all partitions to other hosts of the cluster.
func (h *Host) leavePartitions(ctx context.Context) {
	if h.member != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.cfg.Cluster.Lease)
		defer cancel()
		h.member.leave(ctx)
	}
}

// skipSleeps moves the clock to the next deadline whenever nothing happens.
func (h *Host) skipSleeps(ctx context.Context) {
	for {
		next, ok, err := h.WaitIdle(ctx)
		if err != nil {
			return
		}
		if ok && next.After(h.skip.Now()) {
			h.skip.Set(next)
		}
		t := clock.System().NewTimer(time.Millisecond) // gives the timer loop, or a start, a moment
		select {
		case <-t.C():
		case <-h.closed:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Close stops everything and closes the store. It cancels attempts of steps in flight; they are repeated after the
// next Open. Further calls of Close do nothing.
func (h *Host) Close() error {
	var err error
	h.closing.Do(func() {
		close(h.closed)
		err = h.release(context.Background())
	})
	return translate(err)
}

func (h *Host) release(ctx context.Context) (err error) {
	h.member.halt()
	h.closeKeepers()
	if h.rt != nil {
		h.workers.Close()
		h.rt.Close()
	}
	h.member.close(ctx)
	h.handlerLimiter.Close()
	h.notices.Close()
	if h.engine != nil {
		err = h.engine.Close(context.WithoutCancel(ctx))
	}
	err = errors.Join(err, h.closeWatch())
	if h.ownStore && h.store != nil {
		err = errors.Join(err, h.store.Close())
	}
	return err
}

// WaitIdle waits until no run is queued or active and no attempt of a step is in flight, so that nothing happens
// unless time passes. It returns the instant at which the next run wakes by itself, and false if there is none.
func (h *Host) WaitIdle(ctx context.Context) (next time.Time, ok bool, err error) {
	ms, ok, err := h.rt.WaitIdle(ctx)
	return time.UnixMilli(ms), ok, translate(err)
}
