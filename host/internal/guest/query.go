package guest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// QueryError says that a workflow refused a query, or could not be asked.
type QueryError struct {
	Run, Name string
	JSON      []byte // what the workflow said; nil if it could not be asked
	Cause     error
}

// Error says why.
func (e *QueryError) Error() string {
	if e.JSON != nil {
		return fmt.Sprintf("query %q of run %q failed: %s", e.Name, e.Run, e.JSON)
	}
	return fmt.Sprintf("query %q of run %q: %v", e.Name, e.Run, e.Cause)
}

// Unwrap returns the cause.
func (e *QueryError) Unwrap() error { return e.Cause }

// Why a workflow did not answer. ErrOnItsWay: it goes on beyond what is durable, and can be asked when more is.
var (
	ErrOnItsWay = errors.New("the workflow has not come to a wait yet")
	errNoAnswer = errors.New("the workflow does not answer queries, or waited while it did")
)

// reader is a replay of a run from what is durable of it. Nothing is appended, and the instance is thrown away.
type reader struct {
	guest
	run *run.Run
}

// read makes a reader. begun is false if the run has not begun: then there is nothing to be replayed.
func (r *Runner) read(ctx context.Context, key store.RunKey) (g *reader, begun bool, err error) {
	state, entries, err := r.cfg.Store.Run(ctx, key)
	if err != nil {
		return nil, false, err
	}
	of, err := run.Load(state, entries, run.Config{})
	if err != nil {
		return nil, false, err
	}
	if !of.Exists() {
		return nil, false, fmt.Errorf("run %q: %w: it was deleted", key.ID, store.ErrNotFound)
	}
	mod, err := r.modules.Get(state.Module)
	if err != nil {
		return nil, false, err
	}
	g = &reader{run: of}
	g.init(r, mod, key)
	return g, of.Begun(), nil
}

// config returns what the machine of a reader is made from.
func (g *reader) config(mode replay.Mode) replay.Config {
	j, entries := g.run.Journal(), g.run.Journal().Entries()
	startedMs, _ := j.StartedUnixMs()
	return replay.Config{Mode: mode, Started: j.Started(), Input: entries[0].Input, StartedUnixMs: startedMs,
		Tail: replay.Recorded(entries), BodiesEvent: g.mod.BodiesEvent, Rested: j.Rested()}
}

// play replays the workflow.
func (g *reader) play(ctx context.Context) error {
	g.place = g.r.room.NewPlace(g.mod.Resident()).Of(uint32(g.key.Namespace), g.run.State().Workflow, "")
	if err := g.place.Enter(ctx, admission.Woken, nil); err != nil {
		return context.Cause(ctx)
	}
	defer g.place.Leave()
	_, err := g.call(ctx, g.mod.Entry)
	return err
}

// Query asks a live run a question: its workflow is replayed from the durable journal in an instance of its own, is
// handed the question where it waits, and answers. It ends with ctx, or when the runner is closed.
func (r *Runner) Query(ctx context.Context, key store.RunKey, name string, input []byte) ([]byte, error) {
	ctx, end, err := r.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	g, begun, err := r.read(ctx, key)
	if err != nil {
		return nil, err
	}
	refused := func(cause error) ([]byte, error) { return nil, &QueryError{Run: key.ID, Name: name, Cause: cause} }
	st := g.run.State()
	switch queries := g.mod.Queries(st.Workflow); {
	case st.Status.Terminal():
		return nil, fmt.Errorf("run %q: %w", key.ID, run.ErrTerminal)
	case !begun:
		return refused(errors.New("the run has not begun"))
	case len(queries) > 0 && !slices.Contains(queries, name):
		return refused(fmt.Errorf("%w: workflow %q has no such query, it has %q", store.ErrNotFound, st.Workflow, queries))
	}
	g.wait = func() error { return errNoAnswer }
	cfg := g.config(replay.Query)
	cfg.Query = replay.QueryRequest{Name: name, Input: input}
	g.Machine = replay.New(cfg)
	err = g.play(ctx)
	out := g.Outcome()
	switch {
	case errors.Is(err, replay.ErrQueryEnd) && len(out.Reply) > abi.MaxPayloadBytes:
		return refused(abi.Errorf(abi.TooLarge, "the answer has %d bytes, the limit is %d", len(out.Reply), abi.MaxPayloadBytes))
	case errors.Is(err, replay.ErrQueryEnd) && out.ReplyOK:
		return out.Reply, nil
	case errors.Is(err, replay.ErrQueryEnd):
		return nil, &QueryError{Run: key.ID, Name: name, JSON: append([]byte{}, out.Reply...)}
	case (err == nil || errors.Is(err, replay.ErrSuspend)) && !out.Asked: // its next wait, or its end, is not durable yet
		err = ErrOnItsWay
	case err == nil, errors.Is(err, replay.ErrSuspend):
		err = errNoAnswer
	}
	return refused(err)
}
