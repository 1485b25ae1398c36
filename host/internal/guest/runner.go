// Package guest runs guests: workflows under the lease of their run, bodies and step functions for attempts, and
// replays for queries. It makes instances, answers the calls of guests with the replay machine, keeps them within
// their budgets, and bounds their number and memory.
package guest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/quarantine"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Config configures a Runner.
type Config struct {
	Store  store.Store
	Engine engine.Engine
	Clock  clock.Clock
	Logger *slog.Logger
	Random func(p []byte)
	// Linger is how long a waiting instance is kept while an attempt of its steps runs; 0 or less does not keep it.
	Linger time.Duration
	// MaxInstances bounds the guests that compute at a time. GuestBytes is the approximate limit of what all guests
	// hold, and ParkBytes of what the guests hold that wait for a commit or an attempt. A guest holds its instance
	// (engine.Instance.Resident), its output and its results. It is measured during some of its waits and at its end;
	// before that, the estimate of its module is used.
	MaxInstances int
	GuestBytes   int64
	ParkBytes    int64
	Quotas       admission.Quotas
	// Owes reports whether guests of a namespace must not continue, because its runs have written too much; nil:
	// none.
	Owes func(of store.NamespaceID) bool
	// Keep returns how long the journals of earlier iterations of a workflow's runs are kept; nil: the default.
	Keep     func(ctx context.Context, of store.NamespaceID, workflow string) (run.Keep, error)
	Modules  module.Limits       // Idle is real time
	Journals *admission.Journals // bounds the journals in memory; nil: no bound
	// WarmBytes bounds the cache of sleeping guests, which wake without a replay; 0 disables it.
	WarmBytes     int64
	MaxFuel       int64             // bounds what a workflow computes between two waits
	MaxSegmentCPU time.Duration     // bounds the time for that; if a machine needs longer, it is at fault, not the workflow
	MaxHostCalls  int               // bounds the calls between two waits
	MaxChildren   int               // bounds the live children of a first run: see abi.LiveChildren
	Watch         *quarantine.Watch // nil watches nothing
	// Handled reports whether a handler is registered.
	Handled func(name string) bool
	// Fetch performs a request of a body or step function under the grants of its version; nil refuses requests.
	// Request and answer are framed as in the ABI. The guest gets an error that is an *abi.Error.
	Fetch func(ctx context.Context, grants store.Grants, run store.RunKey, request []byte) ([]byte, error)
	// OnWait, if set, is called for each waiting workflow with a hash of its memory. Tests compare the hashes.
	OnWait func(run store.RunKey, iteration uint32, consumed uint64, hash func() [32]byte)
	// OnEnd, if set, is called at the end of each activation, by its goroutine.
	OnEnd func(ActivationReport)
}

// Events passes the events of guests to the writers of their runs. Its methods do not block.
type Events interface {
	// Guest passes an event of an activation. If the event asks for an order, the writer calls Activation.Order.
	Guest(l *run.Lease, ev run.Event)
	// Ready passes GuestReady for a guest that got its place within Order. The writer's goroutine calls it and
	// handles the event next: the guest already has a place and must not queue.
	Ready(l *run.Lease)
	// Inside passes an event of a run that asks for no order, or whose order answers another event: AttemptEnds,
	// AttemptLogs, Evict, NotForked, Refused.
	Inside(key store.RunKey, ev run.Event)
}

// Runner makes and runs guests.
type Runner struct {
	cfg       Config
	modules   *module.Cache
	admission *admission.Admission
	warm      *snapshotCache[*snapshot]
	workers   goroutinePool
	uploads   *admission.Uploads

	ctx    context.Context //nolint:containedctx // it ends with Close
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // all work that runs guests

	mu      sync.Mutex
	closed  bool
	drained chan struct{} // closed by Drain
}

// NewRunner returns a Runner. The caller closes it.
func NewRunner(cfg Config) *Runner {
	if cfg.Owes == nil {
		cfg.Owes = func(store.NamespaceID) bool { return false }
	}
	r := &Runner{cfg: cfg, drained: make(chan struct{}),
		modules:   module.NewCache(cfg.Engine, cfg.Store, clock.System(), cfg.Modules),
		admission: admission.New(cfg.MaxInstances, cfg.GuestBytes, cfg.ParkBytes).By(cfg.Quotas).Watched(cfg.Watch),
		uploads:   admission.NewUploads(), warm: newSnapshotCache[*snapshot](cfg.WarmBytes)}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	return r
}

// ErrClosed reports that the runner is closed.
var ErrClosed = errors.New("host is closed")

// begin registers work that runs a guest. Close waits until end is called.
func (r *Runner) begin() (end func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	r.wg.Add(1)
	return r.wg.Done, nil
}

// Drain refuses new activations and the ones that wait for a place. Guests that compute continue to their next wait,
// and bodies to their end. It is idempotent.
func (r *Runner) Drain() {
	r.mu.Lock()
	select {
	case <-r.drained:
	default:
		close(r.drained)
	}
	r.mu.Unlock()
	r.admission.RefuseAll()
	r.cfg.Journals.RefuseAll()
}

func (r *Runner) draining() bool {
	select {
	case <-r.quit():
		return true
	default:
		return false
	}
}

// Undrain reverts Drain.
func (r *Runner) Undrain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.drained:
		r.drained = make(chan struct{})
	default:
	}
}

// quit returns the channel that Drain closes.
func (r *Runner) quit() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drained
}

// EvictAll makes all parked guests give up their instances.
func (r *Runner) EvictAll() { r.admission.EvictAll() }

// Close stops every guest at its next call, or within a grant of fuel, and returns when all have ended.
func (r *Runner) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel(ErrClosed)
	r.modules.Cancel()
	r.admission.RefuseAll()
	r.cfg.Journals.RefuseAll()
	r.wg.Wait()
	r.warm.Clear()
	r.modules.Close()
}

// Usage returns the number of instances that compute or are parked plus the uploads in progress, the number of guests
// that wait for a place, and the bytes of the instances.
func (r *Runner) Usage() (instances, waiting int, bytes int64) {
	n, waiting, bytes := r.admission.Usage()
	return n + r.uploads.Taken(), waiting + r.cfg.Journals.Waiting(), bytes
}

// Forget closes a module that is no longer needed. It clears the warm cache, whose guests would keep the module in
// memory.
func (r *Runner) Forget(d store.Digest) {
	r.modules.Forget(d)
	r.warm.Clear()
}

// with returns a context that ends with ctx, or with the runner.
func (r *Runner) with(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
