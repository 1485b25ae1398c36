package sched

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/replay"
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

// Unwrap gives the cause.
func (e *QueryError) Unwrap() error { return e.Cause }

// Query asks a live run a question: its workflow is replayed from the durable journal in an instance of its own, is
// handed the question where it waits, and answers. Nothing is appended, and the instance is thrown away.
func (s *Scheduler) Query(ctx context.Context, run store.RunKey, name string, input []byte) ([]byte, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	o := &owner{s: s, key: run}
	if err := o.load(ctx); err != nil {
		return nil, err
	}
	if o.journal.Ended() != store.KindInvalid {
		return nil, fmt.Errorf("run %q: %w", run.ID, ErrTerminal)
	}
	refused := func(cause error) ([]byte, error) { return nil, &QueryError{Run: run.ID, Name: name, Cause: cause} }
	startedMs, ok := o.journal.StartedUnixMs()
	if !ok {
		return refused(errors.New("the run has not begun"))
	}
	mod, err := s.module(ctx, o.state.Module)
	if err != nil {
		return nil, err
	}
	if queries := mod.queries[o.state.Workflow]; len(queries) > 0 && !slices.Contains(queries, name) {
		return refused(fmt.Errorf("%w: workflow %q has no such query, it has %q", store.ErrNotFound, o.state.Workflow, queries))
	}
	if err := s.slots.acquire(ctx); err != nil {
		return nil, err
	}
	defer s.slots.release()
	g := &guest{}
	g.init(s, mod)
	g.log = func(uint64, int32, string) {}
	g.waitFn = func() error { return errNoAnswer }
	entries := o.journal.Entries()
	g.Machine = replay.New(replay.Config{Mode: replay.Query, Started: o.journal.Started(), Input: entries[0].Input,
		StartedUnixMs: startedMs, Tail: bodyTail{entries}, BodiesEvent: mod.bodiesEvent,
		Rested: o.journal.Rested(), Query: replay.QueryRequest{Name: name, Input: input}})
	_, err = g.call(ctx, mod.entry)
	out := g.Outcome()
	switch {
	case errors.Is(err, replay.ErrQueryEnd) && len(out.Reply) > abi.MaxPayloadBytes:
		return refused(abi.Errorf(abi.TooLarge, "the answer has %d bytes, the limit is %d", len(out.Reply), abi.MaxPayloadBytes))
	case errors.Is(err, replay.ErrQueryEnd) && out.ReplyOK:
		return out.Reply, nil
	case errors.Is(err, replay.ErrQueryEnd):
		return nil, &QueryError{Run: run.ID, Name: name, JSON: append([]byte{}, out.Reply...)}
	case err == nil:
		err = errNoAnswer
	}
	return refused(err)
}

// errNoAnswer says that a workflow does not answer queries.
var errNoAnswer = errors.New("the workflow does not answer queries, or waited while it did")
