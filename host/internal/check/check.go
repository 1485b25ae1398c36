// Package check replays runs in memory, against their own module or another one. It appends nothing and attempts no step: it
// answers the guest from the journal and stops it at its first call beyond the journal's end.
package check

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Guests gives access to the host's modules and places.
type Guests interface {
	// Begin registers an activity that runs a guest, until end is called. The context ends with ctx, or when the host is closed.
	Begin(ctx context.Context) (of context.Context, end func(), err error)
	// Place returns a place in the host's admission for an instance of a module.
	Place(m *module.Module, ns store.NamespaceID, workflow string) *admission.Place
	// Module returns a module of the store.
	Module(d store.Digest) (*module.Module, error)
}

// Journals reads states and journals of runs. A store.Store implements it. Reads return snapshots, and the runs may make
// progress during a check.
type Journals interface {
	State(ctx context.Context, run store.RunKey) (store.RunState, error)
	Run(ctx context.Context, run store.RunKey) (store.RunState, []store.Entry, error)
}

// Config configures a Checker.
type Config struct {
	Guests   Guests
	Store    Journals
	Journals *admission.Journals // bounds the journals in memory; nil: no bound
	// What a guest may compute and call between two waits, as in guest.Config.
	MaxFuel       int64
	MaxSegmentCPU time.Duration
	MaxHostCalls  int
	// OnWait, if set, is called by Verify when a workflow waits, with a function that hashes the instance's memory.
	OnWait func(run store.RunKey, iteration uint32, consumed uint64, hash func() [32]byte)
	// OnVerify, if set, is called when a Verify begins, and returns the report that it fills in.
	OnVerify func() *guest.ReplayReport

	trace func(Call) // called with each call of a guest; nil: no trace
}

// Checker replays runs. It is safe for concurrent use.
type Checker struct {
	cfg   Config
	loads atomic.Uint64 // number of loaded journals
}

// New returns a Checker.
func New(cfg Config) *Checker { return &Checker{cfg: cfg} }

// Outcome is the verdict of a replay.
type Outcome uint8

// The outcomes. Zero is invalid.
const (
	// Compatible: the workflow repeats the whole journal, and then waits, makes a new call, or returns.
	Compatible Outcome = 1
	// Diverges: the workflow differs from the journal.
	Diverges Outcome = 2
	// NotChecked: the replay could not start, or did not reach the journal's end.
	NotChecked Outcome = 3
)

// Result is the result of replaying one run.
type Result struct {
	Outcome Outcome
	State   store.RunState // the replayed state: State.Length entries of State.Iteration
	// Seq is where the workflow diverges, Want what the journal has there, and Got what the workflow did.
	Seq       store.Seq
	Want, Got string
	Reason    string   // of NotChecked
	Notes     []string // remarks on a compatible run
}

// Module returns a module of the store.
func (c *Checker) Module(d store.Digest) (*module.Module, error) { return c.cfg.Guests.Module(d) }

// ErrTooLong stops a replay that exceeds its fuel.
var ErrTooLong = errors.New("the replay computed too long")

// Run replays the durable journal of a run against a module. fuel bounds the whole replay. A run that cannot be read because
// it is corrupt or of another release is NotChecked. Run returns an error if there is no such run, the read fails, ctx has
// ended, or the host is closed.
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

// state returns the state of a run whose journal cannot be read, or only its key if the state cannot be read either.
func (c *Checker) state(ctx context.Context, key store.RunKey) store.RunState {
	st, err := c.cfg.Store.State(ctx, key)
	if err != nil {
		return store.RunState{Run: key}
	}
	return st
}

// load blocks until there is room for a run's journal, and reads the run. The caller calls free, also after an error, when it
// no longer needs the journal.
func (c *Checker) load(ctx context.Context, key store.RunKey) (of *run.Run, free func(), err error) {
	// The budget counts this copy under a key that no run has, because it may count the run itself, too.
	as := store.RunKey{Namespace: key.Namespace, ID: "\x00check " + strconv.FormatUint(c.loads.Add(1), 10)}
	free = func() { c.cfg.Journals.Forget(as) }
	st, err := c.cfg.Store.State(ctx, key)
	if err != nil {
		return nil, free, err
	}
	group := admission.JournalGroup{Namespace: as.Namespace, Workflow: st.Workflow}
	if err := c.cfg.Journals.Load(ctx, group, as, admission.JournalSize(st.JournalBytes, int(st.Length))); err != nil {
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

// Over returns a Checker that replays runs of another source with the guests of c. trace, if set, is called with each call of
// a guest, on the guest's goroutine.
func (c *Checker) Over(source Journals, trace func(Call)) *Checker {
	cfg := c.cfg
	cfg.Store, cfg.OnWait, cfg.OnVerify, cfg.trace = source, nil, nil, trace
	return New(cfg)
}

// Verify replays a run against its own module. It returns nil if the workflow repeats the journal exactly, including the
// inputs of steps that have ended and the bytes of the result. It returns a *replay.Mismatch if the workflow differs,
// store.ErrCorrupt if the run's state contradicts its journal or two entries contradict each other, and otherwise the error
// that stopped the replay.
func (c *Checker) Verify(ctx context.Context, key store.RunKey) error {
	return c.VerifyWith(ctx, key, nil)
}

// VerifyWith is Verify against mod; nil means the run's own module.
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
	p.Limits.Grants, p.strict = guest.Grants(c.cfg.MaxFuel), true
	cfg := replay.Config{Strict: true, Tuned: Tuned(j.Entries()), Rested: j.Rested()}
	if end := j.Ended(); end != store.KindInvalid && end != store.KindFailed && !p.stopped() { // a failure may have been a limit
		cfg.Rested = store.Seq(j.Len()) // the live run stayed within its limits up to its end
	}
	if f := c.cfg.OnVerify; f != nil {
		p.report = f()
	}
	err = p.perform(ctx, cfg)
	p.tell(err)
	return p.judgeEnd(ctx, err)
}

// Tuned returns the seq of the last entry that moved the run to another version, 0 if there is none.
func Tuned(entries []store.Entry) store.Seq {
	for i := len(entries) - 1; i > 0; i-- {
		e := &entries[i]
		if e.Kind == store.KindMigrated || e.Kind == store.KindRetried && e.Target != "" {
			return e.Seq
		}
	}
	return 0
}
