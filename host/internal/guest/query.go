package guest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// reader replays a run from its durable journal. It appends nothing, and its instance is not kept.
type reader struct {
	guest
	run *run.Run
}

// read makes a reader. If the run has not begun, begun is false and there is nothing to replay.
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

// config returns the configuration of the reader's machine.
func (g *reader) config(mode replay.Mode) replay.Config {
	j, entries := g.run.Journal(), g.run.Journal().Entries()
	if held := j.Paused() || j.Aside() != store.NotAside; held && j.Rested() > 0 { // later entries are for later
		entries = entries[:min(int(j.Rested()), len(entries))]
	}
	startedMs, _ := j.StartedUnixMs()
	return replay.Config{Mode: mode, Started: j.Started(), Input: entries[0].Input, StartedUnixMs: startedMs,
		Tail: run.Replayed(entries), BodiesEvent: g.mod.BodiesEvent, Rested: j.Rested()}
}

// play replays the workflow.
func (g *reader) play(ctx context.Context) error {
	g.place = g.r.admission.NewPlace(g.mod.Resident()).Of(uint32(g.key.Namespace), g.run.State().Workflow, "")
	if err := g.place.Enter(ctx, admission.Woken, nil); err != nil {
		return context.Cause(ctx)
	}
	defer g.place.Leave()
	_, err := g.call(ctx, g.mod.Entry)
	return err
}

// Query asks a run a question. It replays the workflow from the durable journal in an instance of its own. The
// workflow answers where it waits or, if the run has ended, when it reports its result. Query ends with ctx, or when
// the runner is closed. st is the state of the run at the time of the question.
func (r *Runner) Query(ctx context.Context, key store.RunKey, name string, input []byte) (answer []byte, st store.RunState,
	err error) {
	ctx, end, err := r.Begin(ctx)
	if err != nil {
		return nil, st, err
	}
	defer end()
	g, begun, err := r.read(ctx, key)
	if err != nil {
		return nil, st, err
	}
	st = g.run.State()
	refused := func(cause error) ([]byte, store.RunState, error) {
		return nil, st, &QueryError{Run: key.ID, Name: name, Cause: cause}
	}
	switch queries := g.mod.Queries(st.Workflow); {
	case !begun:
		return refused(ErrNotBegun)
	case len(queries) > 0 && !slices.Contains(queries, name) && !strings.HasPrefix(name, abi.UpdatePrefix):
		return refused(fmt.Errorf("%w: workflow %q has no such query, it has %q", store.ErrNotFound, st.Workflow, queries))
	}
	g.wait = func() error { return ErrNoAnswer }
	cfg := g.config(replay.Query)
	cfg.Query, cfg.Ended = replay.QueryRequest{Name: name, Input: input}, st.Status.Terminal()
	g.Machine = replay.New(cfg)
	err = g.play(ctx)
	out := g.Outcome()
	switch {
	case errors.Is(err, replay.ErrQueryEnd) && out.ReplyBytes > abi.MaxPayloadBytes:
		return refused(abi.Errorf(abi.TooLarge, "the answer has %d bytes, the limit is %d", out.ReplyBytes, abi.MaxPayloadBytes))
	case errors.Is(err, replay.ErrQueryEnd) && out.ReplyOK:
		return out.Reply, st, nil
	case errors.Is(err, replay.ErrQueryEnd):
		return nil, st, &QueryError{Run: key.ID, Name: name, JSON: append([]byte{}, out.Reply...)}
	case ctx.Err() != nil:
		return nil, st, context.Cause(ctx)
	case err != nil && !errors.Is(err, replay.ErrSuspend):
		return refused(err)
	case cfg.Ended:
		return refused(ErrTooEarly)
	case !out.Asked: // its next wait, or its end, is not durable yet
		return refused(ErrOnItsWay)
	}
	return refused(ErrNoAnswer)
}
