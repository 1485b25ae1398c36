package handler

import (
	"context"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/step"
)

// Reply is told what became of the outcome of an attempt: whether it is recorded, durably, or an error if nobody knows. Nil
// wants to know nothing. It does not block.
type Reply func(recorded bool, err error)

// Remote performs attempts elsewhere than in this process.
type Remote interface {
	// Perform returns the outcome of an attempt. The context ends when the run does not want it any more, and when the workflow
	// cancels it; then told reports true, and an attempt that has begun goes on until its outcome is known.
	Perform(ctx context.Context, a Attempt, input []byte, told func() bool) (step.Outcome, Reply)
	// SetDraining says whether the host is about to stop. Then attempts that nobody has begun are given up.
	SetDraining(draining bool)
}

// Unbegun returns the outcome of an attempt that the workflow cancelled before it began.
func Unbegun() step.Outcome { return step.Failure(abi.KindError, "cancelled before it began", false) }

// Call is an attempt that is to be performed.
type Call struct {
	Attempt Attempt
	Input   []byte
	Clock   clock.Clock
	Told    func() bool                     // whether the workflow has cancelled it
	Cancel  context.CancelCauseFunc         // of the context with which it is performed
	End     func(out step.Outcome, r Reply) // takes its outcome; all calls but the first change nothing
	Busy    func(busy bool)                 // says whether it counts among what the host does; nil: nobody counts
	Leave   func()                          // returns what Limiter has given it; nil = nothing
}

// Perform performs an attempt, and returns when its handler has. A handler that ignores its context does not hold up the
// run: the attempt is over at its timeout, or when nobody waits for it any more, and keeps its room until the handler returns.
// Where the handler has limits, Perform may return before the attempt begins.
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
		// Nothing of it can bring this process down, so it is not noted as a suspect; a suspect is held all the same.
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
		c.End(step.Outcome{Abandoned: true}, nil)
		return
	}
	stop := clock.AfterFunc(c.Clock, c.Attempt.Timeout, func() {
		c.End(step.Timeout(c.Attempt.Timeout), nil)
		c.Cancel(step.ErrTimeout)
	})
	out := f.Call(ctx, c.Attempt, c.Input)
	stop()
	c.leave()
	c.End(out, nil)
	c.Cancel(nil)
}

// GiveUp ends an attempt that has not begun, and does not any more.
func (c *Call) GiveUp() {
	c.leave()
	if c.Told() {
		c.End(Unbegun(), nil)
		return
	}
	c.End(step.Outcome{Abandoned: true}, nil)
}

// SetDraining tells all remote handlers.
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
