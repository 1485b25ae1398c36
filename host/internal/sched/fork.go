package sched

import (
	"context"
	"errors"
	"slices"

	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/replay"
)

// errForked says that the body, for which the guest waits, is executed in the guest's own instance.
var errForked = errors.New("forked")

// forkedBody is the body of a step, executed in the instance of its workflow, which waits for it and nothing else that
// could come first. What the body does to the instance is undone at its end, so that the workflow goes on as if the
// body had been executed elsewhere; a copy of the workflow, which has to replay its journal first, does the same and
// is what is used where an instance cannot be forked.
//
// When something comes for the workflow while the body runs, the instance is left to the body, and the run has another
// activation.
type forkedBody struct {
	*guest
	a       *activation
	attempt *attempt
	stop    func()
}

// canFork tells whether the attempt that is to begin is one of a body, which the guest can be told to execute where it
// waits.
func (a *activation) canFork(starts []*attempt) bool {
	if !a.mayFork || len(starts) != 1 || starts[0].target != "" || a.o.s.cfg.Linger <= 0 {
		return false
	}
	s := a.Suspension()
	if s.Poll && !s.Events || !s.Poll && len(s.Awaited) > 0 && !slices.Contains(s.Awaited, starts[0].handle) {
		return false
	}
	a.o.mu.Lock()
	defer a.o.mu.Unlock()
	return len(a.o.attempts) == 1
}

// fork makes the guest execute a body. false if it cannot.
func (a *activation) fork(start *attempt) bool {
	g, info, err := start.newGuest(a.mod)
	if err != nil {
		return false
	}
	g.Machine = a.Fork(start.asBody(g, a.mod, info))
	g.waitFn = start.waitsForAnother
	g.inst = a.inst
	ctx, stop := start.limits()
	g.ctx = ctx
	unhook := context.AfterFunc(ctx, func() { g.halt(context.Cause(ctx)) })
	b := &forkedBody{guest: g, a: a, attempt: start, stop: func() {
		unhook()
		stop()
	}}
	a.o.mu.Lock()
	defer a.o.mu.Unlock()
	if a.stopped() != nil || a.o.held() || a.o.journal.Deliverable() || !a.inst.Fork(b) {
		b.stop()
		return false
	}
	a.body, a.forked = b, g
	return true
}

// StepEnd ends the body. The instance becomes the workflow's again, if that has something to go on with.
func (b *forkedBody) StepEnd(ok int32, p []byte) error {
	err := b.guest.StepEnd(ok, p)
	if !errors.Is(err, replay.ErrBodyEnd) {
		return err
	}
	b.flushOutput()
	out := b.attempt.guestOutcome(b.ctx, b.guest, 0, err)
	a, o := b.a, b.a.o
	o.mu.Lock()
	defer o.mu.Unlock()
	if a.left {
		return err
	}
	b.end(out)
	if o.dead != nil || o.held() || !o.journal.Deliverable() {
		return errEvicted
	}
	o.journal.Resume()
	return engine.ErrUndo
}

// end takes the outcome of the body. The owner is locked.
func (b *forkedBody) end(out outcome) {
	b.stop()
	b.a.body, b.a.forked = nil, nil
	b.attempt.settle(out)
}

// brokeOff takes the outcome of a body with which the instance ended: it trapped, was stopped, or the workflow had left
// it.
func (b *forkedBody) brokeOff(code int32, err error) error {
	b.flushOutput()
	out := b.attempt.guestOutcome(b.ctx, b.guest, code, err)
	a, o := b.a, b.a.o
	o.mu.Lock()
	defer o.mu.Unlock()
	b.end(out)
	if cause := a.stopped(); cause != nil {
		return cause
	}
	return errEvicted
}

var _ engine.Host = (*forkedBody)(nil)
