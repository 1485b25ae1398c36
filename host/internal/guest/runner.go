// Package guest runs guests: workflows under the lease of their run, bodies and step functions for attempts, and replays
// that answer queries. It makes instances, answers the calls of guests by the replay machine, keeps them within their
// budgets, and bounds how many there are and what memory they hold.
package guest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/budget"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/quarantine"
	"github.com/wfhost/wfhost/host/internal/report"
	"github.com/wfhost/wfhost/host/internal/room"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/slots"
	"github.com/wfhost/wfhost/host/internal/warm"
	"github.com/wfhost/wfhost/host/internal/worker"
	"github.com/wfhost/wfhost/store"
)

// Config is what a Runner is made from.
type Config struct {
	Store  store.Store
	Engine engine.Engine
	Clock  clock.Clock
	Logger *slog.Logger
	Random func(p []byte)
	// Linger is how long an instance is kept while an attempt of one of its steps runs; 0 or less is not at all.
	Linger time.Duration
	// Instances is how many guests compute at a time, MemoryBytes what all of them hold, about, and ParkBytes what those
	// hold that wait for a commit or an attempt. Of a guest, that is its instance (engine.Instance.Resident), and what it
	// printed and handed over. It is measured where it waits, now and then, and at its end; before that, what others of its
	// module held is expected of it.
	Instances   int
	MemoryBytes int64
	ParkBytes   int64
	Spaces      admission.Spaces
	// Owes reports whether no guest of a namespace may go on, because its runs have written too much; nil: all may.
	Owes func(of store.NamespaceID) bool
	// Keep returns how long the journals of earlier iterations of a workflow's runs are kept; nil: as where nothing is set.
	Keep     func(ctx context.Context, of store.NamespaceID, workflow string) (run.Keep, error)
	Modules  module.Limits // their idle time is real time
	Journals *room.Budget  // bounds the journals in memory; nil does not
	// WarmBytes bounds what is kept of guests that sleep, so that their wakes replay nothing; 0 keeps nothing.
	WarmBytes int64
	Fuel      int64         // bounds what a workflow computes between two waits
	CPU       time.Duration // bounds the time that it takes; a machine that needs longer is at fault, not the workflow
	// HostCalls bounds the calls between two waits, Children the live children of a first run: see abi.LiveChildren.
	HostCalls, Children int
	Suspects            *quarantine.Watch // nil watches nothing
	// Handled reports whether a handler is registered.
	Handled func(name string) bool
	// Fetch performs a request of a body or step function under the grants of its version; nil means that none is
	// performed. Request and answer are framed as the ABI says. An error that is an *abi.Error is the guest's.
	Fetch func(ctx context.Context, grants store.Grants, run store.RunKey, request []byte) ([]byte, error)
	// OnWait, if set, sees the memory of every instance whose workflow waits. Tests compare hashes with it.
	OnWait func(run store.RunKey, iteration uint32, consumed uint64, hash func() [32]byte)
	// OnEnd, if set, is called with each activation that has ended, by its goroutine.
	OnEnd func(report.Activation)
}

// Desk takes the events of guests to the writer of their run. It does not block.
type Desk interface {
	// Guest takes an event of an activation. Where the event asks for an order, Activation.Order is called with it.
	Guest(l *run.Lease, ev run.Event)
	// Ready takes GuestReady to the writer, for a guest that has got its place by an order. The writer's goroutine calls it,
	// and the event happens next: the place is taken, so the guest is not to wait behind others.
	Ready(l *run.Lease)
	// Inside takes an event of a run that asks for no order, or that another one answers: AttemptEnds, AttemptLogs, Evict,
	// NotForked, Refused.
	Inside(key store.RunKey, ev run.Event)
}

// Runner makes guests.
type Runner struct {
	cfg     Config
	modules *module.Cache
	room    *admission.Admission
	warm    *warm.Cache[*warm.Guest]
	workers worker.Pool
	uploads *slots.Slots

	ctx    context.Context //nolint:containedctx // it ends with Close
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // of everything that runs a guest

	mu      sync.Mutex
	closed  bool
	drained chan struct{} // closed by Drain
}

// NewRunner returns a Runner. The caller closes it.
func NewRunner(cfg Config) *Runner {
	if cfg.Owes == nil {
		cfg.Owes = func(store.NamespaceID) bool { return false }
	}
	r := &Runner{cfg: cfg, modules: module.NewCache(cfg.Engine, cfg.Store, budget.Clock, cfg.Modules), drained: make(chan struct{}),
		room:    admission.New(cfg.Instances, cfg.MemoryBytes, cfg.ParkBytes).By(cfg.Spaces).Watched(cfg.Suspects),
		uploads: slots.Uploads(), warm: warm.New[*warm.Guest](cfg.WarmBytes)}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	return r
}

// ErrClosed says that the runner is closed.
var ErrClosed = errors.New("host is closed")

// begin counts something that runs a guest, which Close waits for until end is called.
func (r *Runner) begin() (end func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	r.wg.Add(1)
	return r.wg.Done, nil
}

// Drain makes no new activations from now on, and lets none go on that waits for a place. Guests that compute come to
// their next wait, and bodies to their end. Twice is legal.
func (r *Runner) Drain() {
	r.mu.Lock()
	select {
	case <-r.drained:
	default:
		close(r.drained)
	}
	r.mu.Unlock()
	r.room.RefuseAll()
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

// Undrain takes Drain back.
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

// EvictAll has all parked guests give their instances up.
func (r *Runner) EvictAll() { r.room.EvictAll() }

// Close ends every guest at its next call, or within a grant of fuel, and returns when none is left.
func (r *Runner) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel(ErrClosed)
	r.modules.Cancel()
	r.room.RefuseAll()
	r.cfg.Journals.RefuseAll()
	r.wg.Wait()
	r.warm.Clear()
	r.modules.Close()
}

// Held returns the number of instances that compute or are parked, and of uploads that go on; the number of guests that wait for
// a place; and the bytes of the instances.
func (r *Runner) Held() (instances, waiting int, bytes int64) {
	n, waiting, bytes := r.room.Held()
	return n + r.uploads.Taken(), waiting + r.cfg.Journals.Waiting(), bytes
}

// Forget closes a module that is not needed any more. What is kept of guests that sleep would keep it in memory.
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
