package runtime

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/shard"
	"github.com/wfhost/wfhost/store"
)

// desk connects a shard with the guests and attempts of its runs: it starts them, passes the shard's orders to them, and passes
// their events to the shard.
type desk struct {
	*handler.Registry // which attempts ask for places

	life   *life
	writer *shard.Writer
	guests *guest.Runner
	clock  clock.Clock
	ended  func(a handler.Attempt, took time.Duration, err error) // Events.Attempt
}

// Activate requests a guest for a run.
func (d *desk) Activate(l *run.Lease, c shard.Class) {
	class := guest.Woken
	if c == shard.ClassStart {
		class = guest.Starting
	}
	d.life.activity.Begin()
	d.guests.Activate(l, class, d, d.life.activity.Done)
}

// Order passes an order to a guest.
func (d *desk) Order(l *run.Lease, o run.Order) { activation(l).Order(o) }

// Yield asks a guest to yield.
func (d *desk) Yield(l *run.Lease) { activation(l).Yield() }

// Halt stops a guest.
func (d *desk) Halt(l *run.Lease, cause error) { activation(l).Halt(cause) }

func activation(l *run.Lease) *guest.Activation {
	return l.Guest.(*guest.Activation) //nolint:forcetypeassert // Activate has set it
}

// Start starts an attempt.
func (d *desk) Start(a *run.Attempt) {
	p := d.performance(a)
	p.began = clock.System().Now()
	if a.Fork != nil {
		activation(a.Fork).Fork(a)
		return
	}
	d.life.activity.Begin() // until the outcome is known
	if strings.HasPrefix(a.Target, abi.HandlerPrefix) {
		p.call = handler.Call{Attempt: p.info(), Input: a.Input, Clock: d.clock, Place: placeOf(a), Owner: p}
		go d.Perform(p.ctx, &p.call)
		return
	}
	var ctx context.Context
	ctx, p.drop = context.WithCancelCause(d.life.ctx)
	d.life.wg.Go(func() {
		place := placeOf(a)
		defer place.Return()
		out := d.guests.Perform(ctx, a, d, place.Taken)
		p.drop(nil)
		p.end(out)
	})
}

func placeOf(a *run.Attempt) *handler.Place {
	place, _ := a.Place.(*handler.Place) // nil for a body that was to be executed by a fork
	return place
}

// Return returns a place.
func (d *desk) Return(place any) { place.(*handler.Place).Return() } //nolint:forcetypeassert // see Ask

// Tell cancels an attempt on behalf of its workflow.
func (d *desk) Tell(a *run.Attempt) {
	p := d.performance(a)
	p.told.Store(true)
	p.cancel(context.Canceled)
}

// Drop stops an attempt.
func (d *desk) Drop(a *run.Attempt) {
	p := d.performance(a)
	p.cancel(run.ErrTerminal)
	switch {
	case a.Fork != nil:
		activation(a.Fork).Halt(run.ErrTerminal)
	case p.drop != nil:
		p.drop(run.ErrTerminal)
	case !p.began.IsZero():
		p.end(run.StepOutcome{Abandoned: true}) // without waiting for the handler
	default:
		placeOf(a).Return() // it has not begun
	}
}

// Guest posts an event of a guest to the shard.
func (d *desk) Guest(l *run.Lease, ev run.Event) {
	d.writer.Post(func(s *shard.Shard, now int64) { // a closed writer has halted the guest
		if e, ok := ev.(run.BodyEnds); ok {
			d.attemptEnded(e.Attempt, e.Outcome)
		}
		s.Guest(now, l, ev)
	})
}

// Ready posts GuestReady to the shard, ahead of its mail.
func (d *desk) Ready(l *run.Lease) {
	d.writer.Next(func(s *shard.Shard, now int64) { s.Guest(now, l, run.GuestReady{Lease: l}) })
}

// Inside posts an event of a run to the shard.
func (d *desk) Inside(key store.RunKey, ev run.Event) { d.inside(key, ev, nil) }

func (d *desk) inside(key store.RunKey, ev run.Event, reply shard.Reply) {
	if !d.writer.Post(func(s *shard.Shard, now int64) {
		if e, ok := ev.(run.AttemptEnds); ok {
			d.attemptEnded(e.Attempt, e.Outcome)
		}
		s.Inside(now, key, ev, reply)
	}) {
		shard.Envelope{Reply: reply}.Refuse(guest.ErrClosed) // and the run is lost
	}
}

// attemptEnded calls Events.Attempt for an attempt that has ended. It runs on the shard's goroutine.
func (d *desk) attemptEnded(a *run.Attempt, out run.StepOutcome) {
	if !strings.HasPrefix(a.Target, abi.HandlerPrefix) {
		d.performance(a).cancel(nil) // a handler's context ends with its call
	}
	if d.ended == nil || out.Abandoned {
		return
	}
	var err error
	if out.Err != nil {
		err = out.Err
	}
	p := d.performance(a)
	info := p.call.Attempt
	if p.call.Owner == nil {
		info = p.info()
	}
	d.ended(info, clock.System().Now().Sub(p.began), err)
}

// performance is an attempt in progress. The first of Start, Tell and Drop creates it, on the shard's goroutine.
type performance struct {
	desk  *desk
	a     *run.Attempt
	began time.Time
	call  handler.Call // of a handler
	told  atomic.Bool  // the workflow has cancelled it
	over  atomic.Bool  // the outcome is known or no longer needed

	ctx    context.Context //nolint:containedctx // of a handler; Tell and Drop cancel it
	cancel context.CancelCauseFunc
	drop   context.CancelCauseFunc // stops a guest, which has no ctx; nil unless a guest performs the attempt
}

func (d *desk) performance(a *run.Attempt) *performance {
	if p, ok := a.Performer.(*performance); ok {
		return p
	}
	p := &performance{desk: d, a: a}
	p.ctx, p.cancel = context.WithCancelCause(d.life.ctx)
	a.Performer = p
	return p
}

// Told reports whether the workflow has cancelled the attempt.
func (p *performance) Told() bool { return p.told.Load() }

// Cancel cancels the context of the attempt.
func (p *performance) Cancel(cause error) { p.cancel(cause) }

// end passes the outcome of an attempt to its run. Only the first call of end or End has an effect.
func (p *performance) end(out run.StepOutcome) { p.End(out, nil) }

// End is like end and calls r, unless it is nil, when the outcome is durable or is known not to be recorded.
func (p *performance) End(out run.StepOutcome, r handler.Reply) {
	var reply shard.Reply
	if r != nil {
		reply = func(a run.Answer, err error) { r(a.Changed, err) }
	}
	if p.over.Swap(true) {
		shard.Envelope{Reply: reply}.Refuse(nil)
		return
	}
	placeOf(p.a).Over()                                 // before this attempt ceases to be activity
	if out.Err != nil && p.desk.life.ctx.Err() != nil { // stopped by the host; the attempt is repeated after the next start
		shard.Envelope{Reply: reply}.Refuse(guest.ErrClosed)
	} else {
		p.desk.inside(p.a.Run.Run, run.AttemptEnds{Attempt: p.a, Outcome: out}, reply)
	}
	p.desk.life.activity.Done()
}

func (p *performance) info() handler.Attempt {
	a, name := p.a, strings.TrimPrefix(p.a.Target, abi.HandlerPrefix)
	return handler.Attempt{Run: a.Run.Run, Workflow: a.Run.Workflow, Version: a.Run.Version, Step: a.Name, Handler: name, Seq: a.Seq,
		Number: a.Number, Attempts: a.Options.Attempts, IdempotencyKey: a.Key(), Incarnation: a.Run.Incarnation,
		AtMostOnce: a.Options.AtMostOnce, Details: a.Details, TraceParent: a.Started.TraceParent,
		Timeout: time.Duration(a.Options.TimeoutMs) * time.Millisecond}
}
