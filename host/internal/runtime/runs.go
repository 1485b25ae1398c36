package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/shard"
	"github.com/wfhost/wfhost/store"
)

// Runs reads and changes runs. Every change is an event that the writer of the run's partition delivers.
type Runs struct {
	life   *life
	Clocks virtualClocks // of runs whose sleeps are skipped

	store    store.Store
	writers  shard.Writers
	guests   *guest.Runner
	versions *module.Versions
	random   func(p []byte)
	refuse   func() error // Config.Refuse
	keepers  Keepers
	ids      func(context.Context, store.NamespaceID) (int64, error) // Config.IDs

	takeovers  takeovers
	unreadable sync.Map // why runs of a newer release cannot be read, by key; see reporter.Report
}

// call delivers an event to a run and blocks until its effect is durable, or returns an error. If ctx ends first, the event may
// still happen.
func (r *Runs) call(ctx context.Context, key store.RunKey, ev run.Event) (run.Answer, error) {
	return r.callHeld(ctx, key, ev, func() {})
}

// callHeld is like call and calls free once, when there is an answer or an error, even if ctx has ended before.
func (r *Runs) callHeld(ctx context.Context, key store.RunKey, ev run.Event, free func()) (run.Answer, error) {
	c, answer := make(chan error, 1), new(run.Answer)
	told := sync.OnceFunc(free)
	err := errors.Join(r.life.usable(), r.refuse())
	if err == nil && !r.writers.Of(key.Partition()).Post(func(s *shard.Shard, now int64) {
		s.Deliver(now, key, ev, func(a run.Answer, err error) {
			told()
			*answer = a
			c <- err
		})
	}) {
		err = guest.ErrClosed
	}
	if err != nil {
		told()
		return run.Answer{}, err
	}
	select {
	case err = <-c:
		return *answer, err
	case <-ctx.Done():
		return run.Answer{}, ctx.Err()
	}
}

// Start starts a run, which is durable when Start returns. If the id has a run with the same workflow and input, Start returns
// that run and created is false; if workflow or input differ, it returns store.ErrExists. Start fills in the seed, and
// the incarnation if it is zero. free, which Start calls once, releases the run's version.
func (r *Runs) Start(ctx context.Context, n run.NewRun, free func()) (st store.RunState, created bool, err error) {
	a, err := r.begin(ctx, n, free)
	if err != nil {
		return st, false, err
	}
	return *a.State, a.Created, nil
}

// begin starts a run and calls free once.
func (r *Runs) begin(ctx context.Context, n run.NewRun, free func()) (a run.Answer, err error) {
	n.Draw(r.random)
	n.IDsMs, err = r.ids(ctx, n.Key.Namespace)
	if err == nil {
		err = r.keepers.Limit(ctx, &n)
	}
	if err != nil {
		free()
		return a, err
	}
	return r.callHeld(ctx, n.Key, run.Start{New: n}, free)
}

// Look calls f with a run. f must not change it.
func (r *Runs) Look(ctx context.Context, key store.RunKey, f func(*run.Run) error) error {
	_, err := r.call(ctx, key, run.Look{Func: f})
	return err
}

// Read calls f with a run that another host may own: then with what is durable of it. f must not change it.
func (r *Runs) Read(ctx context.Context, key store.RunKey, f func(*run.Run) error) error {
	err := r.Look(ctx, key, f)
	if !errors.Is(err, shard.ErrNotOwned) {
		return err
	}
	state, entries, err := r.store.Run(ctx, key)
	if err != nil {
		return err
	}
	of, err := run.Load(state, entries, run.Config{})
	if err != nil {
		return err
	}
	if !of.Exists() {
		return fmt.Errorf("run %q: %w: it was deleted", key.ID, store.ErrNotFound)
	}
	return f(of)
}

// Signal sends a signal to a run. The signal is durable when Signal returns. fresh is false if the run already has a signal with
// this idempotency key and the same payload.
func (r *Runs) Signal(ctx context.Context, key store.RunKey, s run.Signal) (fresh bool, err error) {
	a, err := r.call(ctx, key, s)
	return a.Changed, err
}

// Change delivers an event to a run and reports whether the event changed the run.
func (r *Runs) Change(ctx context.Context, key store.RunKey, ev run.Event) (changed bool, err error) {
	a, err := r.call(ctx, key, ev)
	return a.Changed, err
}

// Wake ends sleeps of a run early and returns their number.
func (r *Runs) Wake(ctx context.Context, key store.RunKey, name string) (n int, err error) {
	a, err := r.call(ctx, key, run.Wake{Name: name})
	return a.Count, err
}

// Retry resumes a failed or stuck run, under version unless it is nil. free is as in Start.
func (r *Runs) Retry(ctx context.Context, key store.RunKey, version *store.Version, free func()) error {
	hooks, again := r.hooksOfEnded(ctx, key), false
	err := r.takeOver(ctx, key, hooks, func() error { return r.takenOver(ctx, key, hooks) }, func() error {
		again = true
		_, err := r.callHeld(ctx, key, run.Retry{Version: version}, free)
		return err
	})
	if !again {
		free()
	}
	return err
}

// Reread resumes a run that is stuck because an earlier release could not read it.
func (r *Runs) Reread(ctx context.Context, key store.RunKey) error {
	_, err := r.call(ctx, key, run.Reread{})
	return err
}

// Unreadable returns why this release cannot read a run, empty if it can or has not tried to.
func (r *Runs) Unreadable(key store.RunKey) string {
	if cause, found := r.unreadable.Load(key); found {
		return cause.(string) //nolint:forcetypeassert // of reporter.Report
	}
	return ""
}

// Migrate moves a live run to another version. free is as in Start.
func (r *Runs) Migrate(ctx context.Context, key store.RunKey, m run.Migrate, free func()) (run.Answer, error) {
	return r.callHeld(ctx, key, m, free)
}

// Durable returns a run's durable state.
func (r *Runs) Durable(ctx context.Context, key store.RunKey) (store.RunState, error) {
	st, err := r.store.State(ctx, key)
	if err == nil && st.Deleted {
		return store.RunState{}, fmt.Errorf("run %q: %w: it was deleted", key.ID, store.ErrNotFound)
	}
	return st, err
}

// State returns a run's durable state, with status Running if a guest or an attempt of the run is in flight.
func (r *Runs) State(ctx context.Context, key store.RunKey) (store.RunState, error) {
	st, err := r.Durable(ctx, key)
	if err != nil || st.Status.Terminal() || st.Status.Attention() {
		return st, err
	}
	r.writers.Of(key.Partition()).Do(func(s *shard.Shard, _ int64) { // not called if the writer is closed
		if s.Running(key) {
			st.Status, st.Reason = store.Running, ""
		}
	})
	return st, nil
}

// Query sends a query to a run. st is the run's state at that time.
func (r *Runs) Query(ctx context.Context, key store.RunKey, name string, input []byte) (_ []byte, st store.RunState, err error) {
	if err := r.life.usable(); err != nil {
		return nil, st, err
	}
	return r.guests.Query(ctx, key, name, input)
}

// Hook is the destination of a token's deliveries.
type Hook struct {
	Run     store.RunKey
	Name    string // signal name of the deliveries
	Options abi.HookOptions
}

// HookOf returns the hook of the run that holds a token. It returns store.ErrNotFound if no run holds it, whatever the reason.
func (r *Runs) HookOf(ctx context.Context, ns store.NamespaceID, text string) (h Hook, err error) {
	if id, ok := run.RunOfToken(text); ok { // a token that the workflow chose may look like this, too, and belong to another run
		h, err = r.hookOf(ctx, store.RunKey{Namespace: ns, ID: id}, text)
		if !errors.Is(err, store.ErrNotFound) {
			return h, err
		}
	}
	holder, ok, err := r.store.Hook(ctx, ns, text)
	if err != nil {
		return h, err
	}
	if !ok {
		return h, store.ErrNotFound
	}
	return r.hookOf(ctx, holder.Run, text)
}

func (r *Runs) hookOf(ctx context.Context, key store.RunKey, token string) (h Hook, err error) {
	h.Run = key
	err = r.Read(ctx, key, func(of *run.Run) error {
		x := of.Journal().Hook(token)
		if x == nil {
			return store.ErrNotFound
		}
		h.Name = x.Name
		h.Options, err = abi.ParseHookOptions(x.Options)
		return err
	})
	return h, err
}
