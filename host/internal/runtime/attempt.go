package runtime

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// budgetClock measures how long things take. It is the machine's clock even where the host runs in virtual time.
var budgetClock = clock.System()

// Handler performs a step in Go. It gets the step's input and returns its result.
type Handler func(ctx context.Context, a Attempt, input []byte) ([]byte, error)

// Attempt says which attempt of which step a handler performs.
type Attempt struct {
	Run            store.RunKey
	Workflow       string
	Version        uint32
	Step           string
	Handler        string    // without its prefix; empty = a body, or a step function
	Seq            store.Seq // of the call's entry
	Number         uint32    // from 1
	Attempts       int       // at most; 0 = no limit
	IdempotencyKey string
}

// FatalError wraps the error of a handler that must not be tried again.
type FatalError struct{ Err error }

// Error returns the wrapped error's text.
func (e *FatalError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *FatalError) Unwrap() error { return e.Err }

// RetryAfterError wraps the error of a handler that says itself when it is to be tried again.
type RetryAfterError struct {
	Err   error
	After time.Duration
}

// Error returns the wrapped error's text.
func (e *RetryAfterError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *RetryAfterError) Unwrap() error { return e.Err }

// Handle registers a handler, under its name without prefix, and wakes the runs that wait for it.
func (rt *Runtime) Handle(name string, h Handler) {
	rt.mu.Lock()
	rt.handlers[name] = h
	rt.mu.Unlock()
	for _, w := range rt.writers {
		_ = w.post(handledEvent(name)) // a closed one wakes nobody
	}
}

func (rt *Runtime) handler(name string) Handler {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.handlers[name]
}

func (rt *Runtime) handled(name string) bool { return rt.handler(name) != nil }

// maxPerHandler and maxHandlers bound the calls of handlers that go on at a time: of one handler, so that a slow
// one cannot take everything, and of all.
const (
	maxPerHandler = 64
	maxHandlers   = 1024
)

// admit waits for room for a call of a handler.
func (rt *Runtime) admit(ctx context.Context, name string) (leave func(), err error) {
	rt.mu.Lock()
	if rt.rooms == nil {
		rt.rooms = map[string]chan struct{}{"": make(chan struct{}, maxHandlers)}
	}
	if rt.rooms[name] == nil {
		rt.rooms[name] = make(chan struct{}, maxPerHandler)
	}
	own, all := rt.rooms[name], rt.rooms[""]
	rt.mu.Unlock()
	for _, room := range []chan struct{}{own, all} {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			if room == all {
				<-own
			}
			return nil, ctx.Err()
		}
	}
	return func() { <-all; <-own }, nil
}

// performance is an attempt that is performed. It is made by the shard's goroutine, by the first of Start, Tell and Drop.
type performance struct {
	rt   *Runtime
	a    *run.Attempt
	told atomic.Bool // the workflow has cancelled it

	began time.Time

	ctx     context.Context //nolint:containedctx // ends when nobody waits for the attempt
	drop    context.CancelCauseFunc
	tellCtx context.Context //nolint:containedctx // ends when it is told, too
	tell    context.CancelCauseFunc
}

func (w *writer) performance(a *run.Attempt) *performance {
	if p, ok := a.Performer.(*performance); ok {
		return p
	}
	p := &performance{rt: w.rt, a: a}
	p.ctx, p.drop = context.WithCancelCause(w.rt.ctx)
	p.tellCtx, p.tell = context.WithCancelCause(p.ctx)
	a.Performer = p
	return p
}

// Start starts an attempt.
func (w *writer) Start(a *run.Attempt) {
	p := w.performance(a)
	p.began = budgetClock.Now()
	if a.Fork != nil {
		activation(a.Fork).Fork(a)
		return
	}
	w.rt.background(func() {
		out := p.perform(w)
		p.drop(nil)
		w.Inside(a.Run.Run, run.AttemptEnds{Attempt: a, Outcome: out})
	})
}

// Tell tells an attempt that the workflow has cancelled it.
func (w *writer) Tell(a *run.Attempt) {
	p := w.performance(a)
	p.told.Store(true)
	p.tell(context.Canceled)
}

// Drop stops an attempt.
func (w *writer) Drop(a *run.Attempt) {
	w.performance(a).drop(run.ErrTerminal)
	if a.Fork != nil {
		activation(a.Fork).Halt(run.ErrTerminal)
	}
}

// attemptEnded reports an attempt that has ended, wherever it was performed. It is called by the shard's goroutine.
func (w *writer) attemptEnded(a *run.Attempt, out run.Outcome) {
	f := w.rt.cfg.Events.Attempt
	if f == nil || out.Abandoned {
		return
	}
	var err error
	if out.Err != nil {
		err = out.Err
	}
	p := w.performance(a)
	f(p.info(), budgetClock.Now().Sub(p.began), err)
}

func (p *performance) info() Attempt {
	a := p.a
	name, _ := strings.CutPrefix(a.Target, abi.HandlerPrefix)
	return Attempt{Run: a.Run.Run, Workflow: a.Run.Workflow, Version: a.Run.Version, Step: a.Name, Handler: name, Seq: a.Seq,
		Number: a.Number, Attempts: a.Options.Attempts, IdempotencyKey: a.Key()}
}

func (p *performance) perform(w *writer) run.Outcome {
	if name, ok := strings.CutPrefix(p.a.Target, abi.HandlerPrefix); ok {
		return p.handle(name)
	}
	return p.rt.guests.Perform(p.ctx, p.a, w)
}

// handle calls a handler in Go. A handler that ignores its context does not hold up the run: the attempt is over at its
// timeout, or when nobody waits for it any more, and the goroutine keeps its room until it returns.
func (p *performance) handle(name string) run.Outcome {
	leave, err := p.rt.admit(p.tellCtx, name)
	if err != nil {
		if p.ctx.Err() == nil {
			return run.Failure(abi.KindError, "cancelled before it began", false)
		}
		return run.Outcome{Abandoned: true}
	}
	h := p.rt.handler(name)
	if h == nil {
		leave()
		return run.Outcome{Abandoned: true}
	}
	ctx, cancel := context.WithCancelCause(p.tellCtx)
	defer cancel(nil)
	t := p.rt.cfg.Clock.NewTimer(time.Duration(p.a.Options.TimeoutMs) * time.Millisecond)
	defer t.Stop()
	done := make(chan run.Outcome, 1)
	go func() {
		defer leave()
		done <- callHandler(ctx, h, p.info(), p.a.Input)
	}()
	select {
	case out := <-done:
		return out
	case <-t.C():
		return guest.Timeout()
	case <-p.ctx.Done():
		return run.Outcome{Abandoned: true}
	}
}

func callHandler(ctx context.Context, h Handler, info Attempt, input []byte) (out run.Outcome) {
	defer func() {
		if r := recover(); r != nil {
			out = run.Failure(abi.KindTrap, fmt.Sprintf("the handler panicked: %v", r), true)
			out.Err.Details = map[string]string{"stack": string(debug.Stack())}
		}
	}()
	data, err := h(ctx, info, input)
	if err == nil {
		return run.Outcome{Data: data}
	}
	out = run.Failure(abi.KindError, err.Error(), true)
	if fatal, ok := errors.AsType[*FatalError](err); ok {
		out.Err.Retryable = false
		err = fatal.Err
	}
	if after, ok := errors.AsType[*RetryAfterError](err); ok {
		out.RetryAfterMs = max(after.After.Milliseconds(), 0)
		err = after.Err
	}
	out.Err.Type = fmt.Sprintf("%T", err)
	return out
}
