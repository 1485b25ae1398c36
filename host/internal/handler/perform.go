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
	Perform(ctx context.Context, a Attempt, input []byte, told func() bool) (run.StepOutcome, Reply)
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
	Told    func() bool                        // whether the workflow has cancelled it
	Cancel  context.CancelCauseFunc            // cancels the context of Perform
	End     func(out run.StepOutcome, r Reply) // takes its outcome; only the first call has an effect
	Busy    func(busy bool)                    // sets whether it counts as activity of the host; nil = not counted
	Leave   func()                             // returns what Limiter gave it; nil = nothing
}

// Perform performs an attempt, and returns when its handler has. A handler that ignores its context does not hold up
// the run: the attempt is over at its timeout, or when no caller waits for it any more, and keeps its place until the
// handler returns. If the handler has limits, Perform may return before the attempt begins.
func (r *Registry) Perform(ctx context.Context, c *Call) {
	if r.limiter == nil {
		r.perform(ctx, c)
		return
	}
	r.limiter.Enter(ctx, c, func() { r.perform(ctx, c) })
}

func (r *Registry) perform(ctx context.Context, c *Call) {
	name := c.Attempt.Handler
	if m := r.performer(name).remote; m != nil {
		// It runs in another process and cannot crash this one, so the run is not marked as computing. A run that is already
		// under suspicion waits all the same.
		if err := r.watch.Subject(uint32(c.Attempt.Run.Namespace), c.Attempt.Run.ID).Wait(ctx); err != nil {
			c.GiveUp()
			return
		}
		out, reply := m.Perform(ctx, c.Attempt, c.Input, c.Told)
		c.leave()
		c.End(out, reply)
		c.Cancel(nil)
		return
	}
	leave, err := r.Admit(ctx, name, c.Attempt.Run)
	if err != nil {
		c.GiveUp()
		return
	}
	defer leave()
	f := r.Handler(name)
	if f == nil {
		c.leave()
		c.End(run.StepOutcome{Abandoned: true}, nil)
		return
	}
	stop := clock.AfterFunc(c.Clock, c.Attempt.Timeout, func() {
		c.End(run.StepTimeout(c.Attempt.Timeout), nil)
		c.Cancel(run.ErrStepTimeout)
	})
	out := f.Call(ctx, c.Attempt, c.Input)
	stop()
	c.leave()
	c.End(out, nil)
	c.Cancel(nil)
}

// GiveUp ends an attempt that has not begun and never will.
func (c *Call) GiveUp() {
	c.leave()
	if c.Told() {
		c.End(Unbegun(), nil)
		return
	}
	c.End(run.StepOutcome{Abandoned: true}, nil)
}

// SetDraining passes draining to the limiter and to all remote handlers.
func (r *Registry) SetDraining(draining bool) {
	r.mu.Lock()
	all := map[Remote]bool{}
	for _, p := range r.performers {
		if p.remote != nil {
			all[p.remote] = true
		}
	}
	r.mu.Unlock()
	if r.limiter != nil {
		r.limiter.SetDraining(draining)
	}
	for m := range all {
		m.SetDraining(draining)
	}
}
