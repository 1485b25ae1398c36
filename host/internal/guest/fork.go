package guest

import (
	"context"
	"errors"

	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/run"
)

// forkedBody is a step's body that runs in the instance of its workflow. The workflow must wait for the body, and for
// nothing that could come first. The end of the body undoes its changes to the instance, so the workflow continues as
// if the body had run elsewhere. If an instance cannot be forked, the body runs in a copy of the workflow, which must
// replay the journal first.
//
// If an event for the workflow comes while the body runs, the run gets another activation, and the instance is left
// to the body.
type forkedBody struct {
	*guest
	a       *Activation
	attempt attempt
	stop    func()
}

// fork makes the parked guest execute a body in its instance, or else on a copy of the workflow.
func (a *Activation) fork(of *run.Attempt) error {
	if err := a.enterAgain(); err != nil {
		return err
	}
	start := attempt{of, a.r, a.events}
	ctx, stop := start.limit(a.ctx)
	g, info, err := start.newGuest(ctx, a.mod)
	if err != nil {
		stop()
		return a.elsewhere(of)
	}
	g.Machine = a.Machine.Fork(start.asBody(g, a.mod, info))
	g.wait, g.inst, g.ctx, g.place = start.waitsForAnother, a.inst, ctx, a.placed
	unhook := context.AfterFunc(ctx, func() { g.Stop(context.Cause(ctx)) })
	b := &forkedBody{guest: g, a: a, attempt: start, stop: func() {
		unhook()
		stop()
		a.placed.EndBody()
	}}
	if !a.placed.BeginBody() || !a.inst.Fork(b) {
		b.stop()
		return a.elsewhere(of)
	}
	a.body, a.forked = b, g
	return errForked
}

// elsewhere asks for the body to run on a copy of the workflow, and gives up the instance.
func (a *Activation) elsewhere(of *run.Attempt) error {
	a.events.Inside(a.key, run.NotForked{Lease: a.lease, Attempt: of})
	return errSuspended
}

// StepEnd ends the body. The workflow gets the instance back if there is work for it.
func (b *forkedBody) StepEnd(ok int32, p []byte) error {
	err := b.guest.StepEnd(ok, p)
	if !errors.Is(err, replay.ErrBodyEnd) {
		return err
	}
	b.Flush()
	out := b.attempt.outcome(b.ctx, b.guest, 0, err)
	a := b.a
	b.end()
	if err := a.ask(a.ctx, run.BodyEnds{Lease: a.lease, Attempt: b.attempt.Attempt, Outcome: out}); err != nil {
		return err
	}
	return engine.ErrUndo
}

// end returns the instance to the workflow.
func (b *forkedBody) end() {
	b.stop()
	b.a.body, b.a.forked = nil, nil
}

// brokeOff reports the outcome of a body that ended the instance: it trapped, or was stopped.
func (b *forkedBody) brokeOff(code int32, err error) error {
	b.Flush()
	out := b.attempt.outcome(b.ctx, b.guest, code, err)
	b.end()
	b.a.events.Inside(b.a.key, run.AttemptEnds{Attempt: b.attempt.Attempt, Outcome: out})
	return errSuspended
}

var _ engine.Host = (*forkedBody)(nil)
