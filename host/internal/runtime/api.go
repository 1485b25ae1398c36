package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/partition"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

func handledEvent(name string) func(*partition.Shard, int64) {
	return func(s *partition.Shard, now int64) { s.Handled(now, name) }
}

// call lets an event happen to a run, and returns when what came of it is durable, or with an error. If ctx ends before
// that, the event may happen all the same.
func (rt *Runtime) call(ctx context.Context, key store.RunKey, ev run.Event) (run.Answer, error) {
	if err := rt.usable(); err != nil {
		return run.Answer{}, err
	}
	type result struct {
		answer run.Answer
		err    error
	}
	c := make(chan result, 1)
	err := rt.writerOf(key.Partition()).post(func(s *partition.Shard, now int64) {
		s.Deliver(now, key, ev, func(a run.Answer, err error) { c <- result{a, err} })
	})
	if err != nil {
		return run.Answer{}, err
	}
	select {
	case r := <-c:
		return r.answer, r.err
	case <-ctx.Done():
		return run.Answer{}, ctx.Err()
	}
}

// Start starts a run: durable when it returns. A run of that id with the same workflow and input is returned as
// it is, with created false; with others it is store.ErrExists. Seed and incarnation are filled in.
func (rt *Runtime) Start(ctx context.Context, n run.NewRun) (st store.RunState, created bool, err error) {
	rt.fill(&n)
	a, err := rt.call(ctx, n.Key, run.Start{New: n})
	if err != nil {
		return st, false, err
	}
	return *a.State, a.Created, nil
}

// seedBytes is the length of the seed of a run's random numbers.
const seedBytes = 32

// fill makes what is a new run's own.
func (rt *Runtime) fill(n *run.NewRun) {
	n.Seed = make([]byte, seedBytes)
	rt.cfg.Random(n.Seed)
	rt.cfg.Random(n.Incarnation[:])
}

// Restart starts a run that repeats another one of the same namespace: see run.Run.Copy.
func (rt *Runtime) Restart(ctx context.Context, from, to store.RunKey, name string) (st store.RunState, err error) {
	var n run.NewRun
	if err := rt.look(ctx, from, func(r *run.Run) (err error) {
		n, err = r.Copy(name)
		return err
	}); err != nil {
		return st, err
	}
	defer rt.HoldVersions()()
	rt.fill(&n)
	n.Key = to
	a, err := rt.call(ctx, to, run.Start{New: n})
	if err != nil {
		return st, err
	}
	return *a.State, nil
}

// look calls f with a run.
func (rt *Runtime) look(ctx context.Context, key store.RunKey, f func(*run.Run) error) error {
	_, err := rt.call(ctx, key, run.Look{Func: f})
	return err
}

// Signal gives a signal to a run; durable when it returns. It reports whether it is a new one: one with a known
// idempotency key and the same payload is not.
func (rt *Runtime) Signal(ctx context.Context, key store.RunKey, s run.Signal) (fresh bool, err error) {
	a, err := rt.call(ctx, key, s)
	return a.Changed, err
}

// Cancel asks a run to end, and reports whether that changed anything.
func (rt *Runtime) Cancel(ctx context.Context, key store.RunKey) (changed bool, err error) {
	a, err := rt.call(ctx, key, run.Cancel{})
	return a.Changed, err
}

// Terminate ends a run at once.
func (rt *Runtime) Terminate(ctx context.Context, key store.RunKey) error {
	_, err := rt.call(ctx, key, run.Terminate{})
	return err
}

// Pause stops a run where it waits next, and reports whether that changed anything.
func (rt *Runtime) Pause(ctx context.Context, key store.RunKey) (changed bool, err error) {
	a, err := rt.call(ctx, key, run.Pause{})
	return a.Changed, err
}

// Unpause lets a paused run go on, and reports whether that changed anything.
func (rt *Runtime) Unpause(ctx context.Context, key store.RunKey) (changed bool, err error) {
	a, err := rt.call(ctx, key, run.Unpause{})
	return a.Changed, err
}

// Wake resolves sleeps of a run before their time, and returns their number.
func (rt *Runtime) Wake(ctx context.Context, key store.RunKey, name string) (n int, err error) {
	a, err := rt.call(ctx, key, run.Wake{Name: name})
	return a.Count, err
}

// Retry lets a failed or stuck run go on, under another version if one is given.
func (rt *Runtime) Retry(ctx context.Context, key store.RunKey, version *store.Version) error {
	_, err := rt.call(ctx, key, run.Retry{Version: version})
	return err
}

// Delete deletes an ended run with its journal, log and output. Its id stays taken for 30 days.
func (rt *Runtime) Delete(ctx context.Context, key store.RunKey) error {
	_, err := rt.call(ctx, key, run.Delete{})
	return err
}

// Durable returns a run's durable state.
func (rt *Runtime) Durable(ctx context.Context, key store.RunKey) (store.RunState, error) {
	st, err := rt.cfg.Store.State(ctx, key)
	if err == nil && st.Deleted {
		return store.RunState{}, fmt.Errorf("run %q: %w: it was deleted", key.ID, store.ErrNotFound)
	}
	return st, err
}

// State returns a run's durable state; a run with which something goes on is shown as running.
func (rt *Runtime) State(ctx context.Context, key store.RunKey) (store.RunState, error) {
	st, err := rt.Durable(ctx, key)
	if err != nil || st.Status.Terminal() || st.Status.Attention() {
		return st, err
	}
	_ = rt.writerOf(key.Partition()).do(func(s *partition.Shard, _ int64) { // one that is closed runs nothing
		if s.Running(key) {
			st.Status, st.Reason = store.Running, ""
		}
	})
	return st, nil
}

// Query asks a live run a question.
func (rt *Runtime) Query(ctx context.Context, key store.RunKey, name string, input []byte) ([]byte, error) {
	if err := rt.usable(); err != nil {
		return nil, err
	}
	return rt.guests.Query(ctx, key, name, input)
}

// Replay runs a workflow against the journal of a run.
func (rt *Runtime) Replay(ctx context.Context, key store.RunKey) error {
	if err := rt.usable(); err != nil {
		return err
	}
	return rt.guests.Replay(ctx, key)
}

// Describe compiles a module, runs its start-up once, and asks for its description.
func (rt *Runtime) Describe(ctx context.Context, wasm []byte) ([]byte, error) {
	return rt.guests.Describe(ctx, wasm)
}

// Hook is where a token delivers to.
type Hook struct {
	Run     store.RunKey
	Name    string // of the signal that a delivery becomes
	Options abi.HookOptions
}

// HookOf returns the hook of the run that holds a token; store.ErrNotFound if none does, whatever the reason.
func (rt *Runtime) HookOf(ctx context.Context, ns store.NamespaceID, token string) (h Hook, err error) {
	if len(token) > guest.TokenBytes+1 && token[guest.TokenBytes] == '.' {
		// One that was chosen may look like this too, and its run is then another one.
		key := store.RunKey{Namespace: ns, ID: token[guest.TokenBytes+1:]}
		if h, err = rt.hookOf(ctx, key, token); !errors.Is(err, store.ErrNotFound) {
			return h, err
		}
	}
	holder, ok, err := rt.cfg.Store.Hook(ctx, ns, token)
	if err != nil {
		return h, err
	}
	if !ok {
		return h, store.ErrNotFound
	}
	return rt.hookOf(ctx, holder.Run, token)
}

func (rt *Runtime) hookOf(ctx context.Context, key store.RunKey, token string) (h Hook, err error) {
	h.Run = key
	err = rt.look(ctx, key, func(r *run.Run) error {
		x := r.Journal().Hook(token)
		if x == nil {
			return store.ErrNotFound
		}
		h.Name = x.Name
		h.Options, err = abi.ParseHookOptions(x.Options)
		return err
	})
	return h, err
}
