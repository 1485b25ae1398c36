package sched

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/store"
)

func tooLarge(step string, n int) string {
	return fmt.Sprintf("result of step %q has %d bytes, the limit is %d", step, n, abi.MaxPayloadBytes)
}

// FatalError wraps the error of a handler that must not be tried again.
type FatalError struct{ Err error }

// Error gives the wrapped error's text.
func (e *FatalError) Error() string { return e.Err.Error() }

// Unwrap gives the wrapped error.
func (e *FatalError) Unwrap() error { return e.Err }

// RetryAfterError wraps the error of a handler that says itself when it is to be tried again.
type RetryAfterError struct {
	Err   error
	After time.Duration
}

// Error gives the wrapped error's text.
func (e *RetryAfterError) Error() string { return e.Err.Error() }

// Unwrap gives the wrapped error.
func (e *RetryAfterError) Unwrap() error { return e.Err }

// perform makes the attempt.
func (a *attempt) perform() outcome {
	if name, ok := strings.CutPrefix(a.target, abi.HandlerPrefix); ok {
		return a.performHandler(name)
	}
	return a.performGuest()
}

// maxPerHandler and maxHandlers bound the calls of handlers that go on at a time: of one handler, so that a slow
// one cannot take everything, and of all.
const (
	maxPerHandler = 64
	maxHandlers   = 1024
)

// admit waits for room for a call of a handler.
func (s *Scheduler) admit(ctx context.Context, name string) (leave func(), err error) {
	s.mu.Lock()
	if s.rooms == nil {
		s.rooms = map[string]chan struct{}{"": make(chan struct{}, maxHandlers)}
	}
	if s.rooms[name] == nil {
		s.rooms[name] = make(chan struct{}, maxPerHandler)
	}
	own, all := s.rooms[name], s.rooms[""]
	s.mu.Unlock()
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

// performHandler calls a handler in Go. A handler that ignores its context does not hold up the run: the attempt
// is over at its timeout, and the goroutine keeps its room until it returns.
func (a *attempt) performHandler(name string) outcome {
	o := a.o
	leave, err := o.s.admit(a.ctx, name)
	if err != nil {
		return a.interrupted()
	}
	h := o.s.handler(name)
	if h == nil {
		leave()
		return outcome{abandoned: true}
	}
	info := Attempt{Run: o.key, Workflow: a.run.Workflow, Version: a.run.Version, Step: a.name, Seq: a.seq, Number: a.number,
		Attempts: a.options.Attempts, IdempotencyKey: a.key()}
	ctx, cancel := context.WithCancelCause(a.ctx)
	defer cancel(nil)
	t := o.s.cfg.Clock.NewTimer(time.Duration(a.options.TimeoutMs) * time.Millisecond)
	defer t.Stop()
	done := make(chan outcome, 1)
	go func() {
		defer leave()
		done <- callHandler(ctx, h, info, a.input)
	}()
	stopped := a.ctx.Done()
	for {
		select {
		case out := <-done:
			return out
		case <-t.C():
			cancel(errStepTimeout)
			return failure(abi.KindTimeout, errStepTimeout.Error(), true)
		case <-stopped:
			if !a.told.Load() {
				return outcome{abandoned: true}
			}
			stopped = nil // it has been told, and its outcome is waited for
		}
	}
}

// interrupted is the outcome of an attempt that never began because somebody stopped it.
func (a *attempt) interrupted() outcome {
	if a.told.Load() {
		return failure(abi.KindError, "cancelled before it began", false)
	}
	return outcome{abandoned: true}
}

func callHandler(ctx context.Context, h Handler, info Attempt, input []byte) (out outcome) {
	defer func() {
		if r := recover(); r != nil {
			out = failure(abi.KindTrap, fmt.Sprintf("the handler panicked: %v", r), true)
			out.err.Details = map[string]string{"stack": string(debug.Stack())}
		}
	}()
	data, err := h(ctx, info, input)
	if err == nil {
		return outcome{ok: true, data: data}
	}
	out = failure(abi.KindError, err.Error(), true)
	if fatal, ok := errors.AsType[*FatalError](err); ok {
		out.err.Retryable = false
		err = fatal.Err
	}
	if after, ok := errors.AsType[*RetryAfterError](err); ok {
		out.retryAfterMs = max(after.After.Milliseconds(), 0)
		err = after.Err
	}
	out.err.Type = fmt.Sprintf("%T", err)
	return out
}

// bodyTail is the journal of a copy that executes a body: it is only read.
type bodyTail struct{ entries []store.Entry }

func (t bodyTail) Entries() []store.Entry { return t.entries }
func (t bodyTail) CallRoom() error        { return nil }

// CheckAttribute is not asked: a copy makes no calls of its own.
func (t bodyTail) CheckAttribute(string) error { return nil }
func (t bodyTail) Append(e store.Entry) (store.Entry, error) {
	return e, errors.New("a body's copy of the workflow cannot append")
}

// newStepGuest makes a guest for a step function, or for a question to a module outside of any run.
func newStepGuest(s *Scheduler, m *loadedModule, started journal.Started, input []byte, info *replay.StepInfo) *guest {
	g := &guest{}
	g.init(s, m)
	g.log = func(uint64, int32, string) {}
	g.waitFn = func() error { return errBodyDeadlock }
	g.Machine = replay.New(replay.Config{Mode: replay.StepFn, Started: started, Input: input, Step: info,
		RealTime: realTime(s, budgetClock.Now()), RealRandom: realRandom})
	return g
}

// performGuest executes a body on a copy of the workflow, or a step function in a fresh instance.
func (a *attempt) performGuest() outcome {
	o := a.o
	mod, err := o.s.module(a.ctx, a.run.Module)
	if err != nil {
		return failure(abi.KindError, err.Error(), true)
	}
	if err := o.s.slots.acquire(a.ctx); err != nil {
		return a.interrupted()
	}
	defer o.s.slots.release()
	ctx, stop := a.limits()
	defer stop()
	g, info, err := a.newGuest(mod)
	if err != nil {
		return failure(abi.KindError, err.Error(), true)
	}
	export := abi.ExportStep
	if a.target == "" {
		export = mod.entry
		g.Machine = replay.New(a.asBody(g, mod, info))
		g.waitFn = a.waitsForAnother
	}
	code, err := g.call(ctx, export)
	g.flushOutput()
	return a.guestOutcome(ctx, g, code, err)
}

// limits gives the context of a body or step function. The guest cannot be told anything, so that only an end of the
// run, or the time-out, ends it.
func (a *attempt) limits() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(a.ctx))
	unhook := context.AfterFunc(a.ctx, func() {
		if !a.told.Load() {
			cancel(context.Canceled)
		}
	})
	timeout := budgetClock.NewTimer(time.Duration(a.options.TimeoutMs) * time.Millisecond)
	go func() {
		select {
		case <-timeout.C():
			cancel(errStepTimeout)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		unhook()
		timeout.Stop()
		cancel(nil)
	}
}

// newGuest makes the guest that executes a body or step function.
func (a *attempt) newGuest(mod *loadedModule) (*guest, *replay.StepInfo, error) {
	o := a.o
	info := &replay.StepInfo{Name: a.name, Handler: a.target, Attempt: a.number, Attempts: a.options.Attempts,
		IdempotencyKey: a.key(), DeadlineMs: a.startMs + a.options.TimeoutMs, LastError: a.last}
	g := newStepGuest(o.s, mod, a.started, a.input, info)
	g.fuel, g.limit = 0, time.Duration(a.options.TimeoutMs)*time.Millisecond // the time-out is real time
	g.log = a.logLine
	var err error
	g.grants, err = o.s.grants(o.key.Namespace, a.run.Workflow, a.run.Version)
	return g, info, err
}

func (a *attempt) waitsForAnother() error {
	return fmt.Errorf("the workflow waits, but not for the body of step %q", a.name)
}

// asBody gives the machine of a guest that is a copy of the workflow as of its latest suspension.
func (a *attempt) asBody(g *guest, mod *loadedModule, info *replay.StepInfo) replay.Config {
	o := a.o
	o.mu.Lock()
	defer o.mu.Unlock()
	startedMs, _ := o.journal.StartedUnixMs()
	entries := o.journal.Entries()
	start := budgetClock.Now()
	wall := o.s.cfg.Clock.Now()
	begun := false
	return replay.Config{Mode: replay.Body, Started: o.journal.Started(), Input: entries[0].Input,
		StartedUnixMs: startedMs, Tail: bodyTail{entries}, Until: a.until.Seq, Rested: a.until.Seq, Handle: a.handle,
		BodiesEvent: mod.bodiesEvent, OnWait: g.observer(), Step: info, RealRandom: realRandom,
		RealTime: func() (int64, int64) {
			if !begun { // the clock starts with the body, not with the replay before it
				begun, start, wall = true, budgetClock.Now(), o.s.cfg.Clock.Now()
			}
			elapsed := budgetClock.Now().Sub(start)
			return wall.Add(elapsed).UnixNano(), int64(elapsed)
		}}
}

// guestOutcome says how a body or step function ended.
func (a *attempt) guestOutcome(ctx context.Context, g *guest, code int32, err error) outcome {
	out := g.Outcome()
	var trap *engine.Trap
	switch {
	case errors.Is(err, replay.ErrBodyEnd) && out.BodyOK:
		return outcome{ok: true, data: out.Body}
	case errors.Is(err, replay.ErrBodyEnd):
		return reported(out.Body)
	case errors.Is(context.Cause(ctx), errStepTimeout) || errors.Is(err, errSlow):
		return failure(abi.KindTimeout, errStepTimeout.Error(), true)
	case ctx.Err() != nil:
		return outcome{abandoned: true}
	case errors.As(err, &trap):
		out := failure(abi.KindTrap, trap.Message, true)
		out.err.Details = stack(trap)
		return out
	case err != nil:
		return failure(abi.KindError, err.Error(), true)
	case a.target == "" && g.InBody():
		return failure(abi.KindTrap, fmt.Sprintf("the body called proc_exit(%d)", code), true)
	case a.target == "":
		return failure(abi.KindError, "the workflow returned without executing the body", true)
	case code != 0:
		return reported(out.Failure)
	}
	return outcome{ok: true, data: out.Result}
}

// reported reads the error JSON with which a body or step function reports its failure.
func reported(b []byte) outcome {
	var e struct {
		Message      string          `json:"message"`
		Type         string          `json:"type"`
		Kind         string          `json:"kind"`
		Stack        string          `json:"stack"`
		Retryable    *bool           `json:"retryable"`
		RetryAfterMs *int64          `json:"retry_after_ms"`
		Details      json.RawMessage `json:"details"`
	}
	if err := json.Unmarshal(b, &e); err != nil || e.Message == "" {
		e.Message = strings.ToValidUTF8(string(b), "�")
	}
	if e.Message == "" {
		e.Message = "the step failed without a message"
	}
	out := failure(abi.KindError, e.Message, e.Retryable == nil || *e.Retryable)
	out.err.Type = e.Type
	if e.Kind == abi.KindTrap {
		out.err.Kind = abi.KindTrap
	}
	if e.Stack != "" {
		out.err.Details = map[string]string{"stack": e.Stack}
	}
	if e.RetryAfterMs != nil {
		out.retryAfterMs = max(*e.RetryAfterMs, 0)
	}
	return out
}

// logLine keeps a line of a body or step function. The lines of an attempt are stored with its outcome.
func (a *attempt) logLine(_ uint64, level int32, text string) {
	o := a.o
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dead == nil && o.journal.Ended() == store.KindInvalid {
		o.addLog(store.LogLine{UnixMs: o.s.nowMs(), Level: int8(level), Step: a.name, Attempt: a.number, Text: text})
	}
}
