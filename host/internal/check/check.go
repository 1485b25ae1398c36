// Package check replays runs in memory, against the module that they have or another one. Nothing is appended and no step is
// attempted: the guest is answered from the journal, and stopped at its first call beyond the journal's end.
package check

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/budget"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/report"
	"github.com/wfhost/wfhost/host/internal/room"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Guests is who has the instances of the host.
type Guests interface {
	// Begin counts something that runs a guest until end is called. The context ends with ctx, or when the host is closed.
	Begin(ctx context.Context) (of context.Context, end func(), err error)
	// Place returns a place among the guests that compute, for an instance of a module.
	Place(m *module.Module, ns store.NamespaceID, workflow string) *admission.Place
	// Module returns a module of the store.
	Module(d store.Digest) (*module.Module, error)
}

// Journals is where the journals of runs are read from. A store.Store is one. What is read is a snapshot: the runs may go on.
type Journals interface {
	State(ctx context.Context, run store.RunKey) (store.RunState, error)
	Run(ctx context.Context, run store.RunKey) (store.RunState, []store.Entry, error)
}

// Config is what a Checker is made from.
type Config struct {
	Guests   Guests
	Store    Journals
	Journals *room.Budget // bounds the journals in memory; nil does not
	// Fuel, CPU and HostCalls bound what a guest may compute and call between two waits, as they do for live runs.
	Fuel      int64
	CPU       time.Duration
	HostCalls int
	// OnWait, if set, sees the memory of every instance whose workflow waits.
	OnWait func(run store.RunKey, iteration uint32, consumed uint64, hash func() [32]byte)
	// OnVerify, if set, returns where each Verify that begins is to say what it comes to.
	OnVerify func() *report.Replay

	trace func(Call) // nil: nobody sees the calls
}

// Checker replays runs. It is safe for concurrent use.
type Checker struct {
	cfg   Config
	loads atomic.Uint64 // journals that were loaded
}

// New returns a Checker.
func New(cfg Config) *Checker { return &Checker{cfg: cfg} }

// Outcome says what a replay has shown.
type Outcome uint8

// The outcomes. Zero is invalid.
const (
	// Compatible: the workflow does all that the journal records, and then waits, goes on with a call of its own, or returns.
	Compatible Outcome = 1
	// Diverges: the workflow does something else.
	Diverges Outcome = 2
	// NotChecked: the replay could not be made, or not to the journal's end.
	NotChecked Outcome = 3
)

// Result is what the replay of one run has shown.
type Result struct {
	Outcome Outcome
	State   store.RunState // as it was replayed: State.Length entries of State.Iteration
	// Seq, Want and Got say where the workflow diverges, what the journal has there, and what the workflow did.
	Seq       store.Seq
	Want, Got string
	Reason    string   // why it was not checked
	Notes     []string // what is worth knowing of a compatible one
}

// Module returns a module of the store.
func (c *Checker) Module(d store.Digest) (*module.Module, error) { return c.cfg.Guests.Module(d) }

// ErrTooLong stops a replay that needs more fuel than it may.
var ErrTooLong = errors.New("the replay computed too long")

// Run replays a run as it is durable now against a module, with at most so much fuel. An error means that nothing
// can be said of this run, nor of others: ctx has ended, the host is closed, or there is no such run.
func (c *Checker) Run(ctx context.Context, key store.RunKey, mod *module.Module, fuel int64) (r Result, err error) {
	ctx, end, err := c.cfg.Guests.Begin(ctx)
	if err != nil {
		return r, err
	}
	defer end()
	of, free, err := c.load(ctx, key)
	defer free()
	if errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrVersion) {
		return Result{Outcome: NotChecked, Reason: err.Error(), State: c.state(ctx, key)}, nil
	}
	if err != nil {
		return r, err
	}
	p := newPlayer(c, mod, of)
	p.slices = slicesOf(fuel)
	r = p.result(ctx, p.perform(ctx, replay.Config{}))
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	r.State, r.Notes = of.State(), append(append(r.Notes, p.notes()...), p.moves()...)
	return r, nil
}

// state returns what is known of a run that cannot be read.
func (c *Checker) state(ctx context.Context, key store.RunKey) store.RunState {
	st, err := c.cfg.Store.State(ctx, key)
	if err != nil {
		return store.RunState{Run: key}
	}
	return st
}

// load reads a run when there is room for its journal. free is called when the journal is not needed any more.
func (c *Checker) load(ctx context.Context, key store.RunKey) (of *run.Run, free func(), err error) {
	// A key that no run has: the run itself may be counted, too.
	as := store.RunKey{Namespace: key.Namespace, ID: "\x00check " + strconv.FormatUint(c.loads.Add(1), 10)}
	free = func() { c.cfg.Journals.Forget(as) }
	st, err := c.cfg.Store.State(ctx, key)
	if err != nil {
		return nil, free, err
	}
	group := room.Group{Namespace: as.Namespace, Workflow: st.Workflow}
	if err := c.cfg.Journals.Load(ctx, group, as, room.Size(st.JournalBytes, int(st.Length))); err != nil {
		return nil, free, err
	}
	st, entries, err := c.cfg.Store.Run(ctx, key)
	if err != nil {
		return nil, free, err
	}
	of, err = run.Load(st, entries, run.Config{})
	if err == nil && !of.Exists() {
		err = fmt.Errorf("run %q: %w: it was deleted", key.ID, store.ErrNotFound)
	}
	return of, free, err
}

// Over returns a Checker that replays runs of another source with the instances of this one. trace, if set, is called with each
// call of the guests, by their goroutines.
func (c *Checker) Over(source Journals, trace func(Call)) *Checker {
	cfg := c.cfg
	cfg.Store, cfg.OnWait, cfg.OnVerify, cfg.trace = source, nil, nil, trace
	return New(cfg)
}

// Verify replays a run against the module that it has. It returns nil if the workflow does what the journal records, down to
// the inputs of steps that have ended and the bytes of the result, else a *replay.Mismatch or what stopped it. A store.ErrCorrupt
// says that the state of the run contradicts its journal, or one entry of that another one.
func (c *Checker) Verify(ctx context.Context, key store.RunKey) error {
	return c.VerifyWith(ctx, key, nil)
}

// VerifyWith is Verify against a module; nil is the one that the run has.
func (c *Checker) VerifyWith(ctx context.Context, key store.RunKey, mod *module.Module) error {
	ctx, end, err := c.cfg.Guests.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	of, free, err := c.load(ctx, key)
	defer free()
	if err != nil {
		return err
	}
	if mod == nil {
		mod, err = c.cfg.Guests.Module(of.State().Module)
	}
	if err != nil {
		return err
	}
	j, state := of.Journal(), of.State()
	if err := contradiction(&state, j); err != nil || !of.Begun() {
		return err
	}
	p := newPlayer(c, mod, of)
	p.Limits.Grants, p.strict = budget.Grants(c.cfg.Fuel), true
	cfg := replay.Config{Strict: true, Tuned: Tuned(j.Entries()), Rested: j.Rested()}
	if end := j.Ended(); end != store.KindInvalid && end != store.KindFailed && !p.stopped() { // a failure may have been a limit
		cfg.Rested = store.Seq(j.Len()) // it has passed everything
	}
	if f := c.cfg.OnVerify; f != nil {
		p.report = f()
	}
	err = p.perform(ctx, cfg)
	p.tell(err)
	return p.judgeEnd(ctx, err)
}

// Tuned returns the seq of the entry with which a run last went on under another version, 0 if it never did.
func Tuned(entries []store.Entry) store.Seq {
	for i := len(entries) - 1; i > 0; i-- {
		e := &entries[i]
		if e.Kind == store.KindMigrated || e.Kind == store.KindRetried && e.Target != "" {
			return e.Seq
		}
	}
	return 0
}
