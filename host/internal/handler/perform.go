package handler

import (
	"context"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/run"
)

// Reply is called with the fate of an attempt's outcome: whether it is recorded, durably, or an error if that is
// unknown. It may be nil, and must not block.
type Reply func(recorded bool, err error)

// Remote performs attempts outside this process.
type Remote interface {
	// Perform returns the outcome of an attempt. ctx ends when the run no longer needs the attempt, and when the workflow cancels
	// it. In the second case told returns true, and an attempt that has begun continues until its outcome is known.
	// Perform calls taken when the attempt begins to be performed, and no longer waits; perhaps more than once.
	Perform(ctx context.Context, a Attempt, input []byte, told func() bool, taken func()) (run.StepOutcome, Reply)
	// SetDraining sets whether the host is about to stop. While it is, attempts that have not begun are given up.
	SetDraining(draining bool)
}

// Unbegun returns the outcome of an attempt that the workflow cancelled before it began.
func Unbegun() run.StepOutcome {
	return run.StepFailure(abi.KindError, "cancelled before it began", false)
}

// Call is an attempt to perform.
type Call struct {
	Attempt Attempt
	Input   []byte
	Clock   clock.Clock
	Place   *Place // Perform returns it
	Owner   Owner
}

// Owner is who waits for the outcome of a Call.
type Owner interface {
	// Told reports whether the workflow has cancelled the attempt.
	Told() bool
	// Cancel cancels the context of Perform.
	Cancel(cause error)
	// End takes the outcome. Only the first call has an effect.
	End(out run.StepOutcome, r Reply)
}

// Perform performs an attempt that has a place, and returns when its handler has. A handler that ignores its context does not
// hold up the run: the attempt is over at its timeout, or when no caller waits for it any more, and keeps its place until the
// handler returns.
func (r *Registry) Perform(ctx context.Context, c *Call) {
	defer c.Place.Return()
	c.Place.Begins(c.Input)
	if c.Place != nil {
		c.Attempt.SinceMs = c.Place.since
	}
	name := c.Attempt.Handler
	if m := r.performer(name).remote; m != nil { // it runs in another process and cannot crash this one
		out, reply := m.Perform(ctx, c.Attempt, c.Input, c.Owner.Told, c.Place.Taken)
		c.Place.Return()
		c.Owner.End(out, reply)
		c.Owner.Cancel(nil)
		return
	}
	f := r.Handler(name)
	if f == nil {
		c.Place.Return()
		c.Owner.End(run.StepOutcome{Abandoned: true}, nil)
		return
	}
	subject := r.cfg.Watch.Subject(uint32(c.Attempt.Run.Namespace), c.Attempt.Run.ID)
	subject.Begin()
	defer subject.End()
	stop := clock.AfterFunc(c.Clock, c.Attempt.Timeout, func() {
		c.Owner.End(run.StepTimeout(c.Attempt.Timeout), nil)
		c.Owner.Cancel(run.ErrStepTimeout)
	})
	out := f.Call(ctx, c.Attempt, c.Input)
	stop()
	c.Place.Return() // first, so that the next attempt counts as activity before this one ceases to be
	c.Owner.End(out, nil)
	c.Owner.Cancel(nil)
}
