//go:build !wasip1

package workflow

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/wfhost/wfhost/abi"
)

// Env is an in-memory environment for tests of workflow functions with go test. Sleeps and delays use the clock of package
// time, so a test in a testing/synctest bubble does not wait. Nothing is durable.
type Env struct {
	mu       sync.Mutex
	handlers map[string]stepFunc
	calls    []*EnvCall
	logs     []string
	rng      *rand.ChaCha8
	started  time.Time
	began    time.Time // start of the iteration

	iteration uint32
	run       envRun

	id        string
	workflow  string
	memo      json.RawMessage
	parent    *Env // nil if this is not a child
	depth     int  // number of ancestors
	runs      *envRuns
	children  int64                   // children started so far
	workflows map[string]workflowFunc // set by HandleChild
	lost      error                   // the first change that a body has lost

	base      context.Context         //nolint:containedctx // of the whole test; children run in it
	cancel    context.CancelCauseFunc // of the iteration's context
	over      bool                    // the run has ended
	cancelled bool                    // the context was cancelled by a cooperative cancel
	cancels   bool                    // cancel when the next iteration begins
	cut       *envCut                 // of the iteration
	ended     chan struct{}           // closed when the run is cut
	grace     *time.Timer             // limits the clean-up of a child after its deadline
}

// NewEnv returns an empty environment.
func NewEnv(opts ...EnvOption) *Env {
	e := &Env{handlers: map[string]stepFunc{}, rng: rand.NewChaCha8([32]byte{}), started: time.Now(), run: newEnvRun(),
		id: envRunID, workflows: map[string]workflowFunc{}, cut: newCut(), ended: make(chan struct{}),
		cancel: func(error) {}}
	for _, o := range opts {
		o(e)
	}
	e.runs = &envRuns{byID: map[string]*Env{e.id: e}, tokens: map[string]*Env{}}
	return e
}

// Handle sets the function that performs steps for a handler, such as "host/mail", in this test. Errors and panics of fn are
// reported like errors and panics of a handler written in Go.
func Handle[In, Out any](e *Env, name string, fn func(s Step, in In) (Out, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	own := strings.TrimPrefix(name, abi.HandlerPrefix)
	e.handlers[name] = func(s Step, input []byte) (b []byte, err error) {
		defer func() {
			if v := recover(); v != nil {
				panic(handlerError{fmt.Errorf("the handler panicked: %v", v)})
			}
		}()
		var in In
		if err := decode(input, &in); err != nil {
			return nil, handlerError{Fatal(fmt.Errorf("input of handler %q: %w", own, err))}
		}
		out, err := fn(s, in)
		if err == nil {
			b, err = encodeResult("handler", own, out)
		}
		if err != nil {
			_ = err.Error() // may panic on a nil pointer, and then does so on a host
			return nil, handlerError{err}
		}
		return b, nil
	}
}

// handlerError wraps the error of a function that Handle has set. If the function panics, the new panic has a handlerError.
type handlerError struct{ error }

func (e handlerError) Unwrap() error { return e.error }

// typeName returns the type name of the error as a host reports it, with the star of a pointer type.
func (e handlerError) typeName() string {
	err := e.error
	if fatal, ok := errors.AsType[fatalError](err); ok {
		err = fatal.error
	}
	if after, ok := errors.AsType[retryAfterError](err); ok {
		err = after.error
	}
	return fmt.Sprintf("%T", err)
}

// Logs returns the logged lines.
func (e *Env) Logs() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.logs...)
}

// Run runs a workflow function in an environment. Input and result pass through the codec, as in the host. If a body changes
// a variable outside of it, the run fails with ErrLostChange. An environment runs one workflow at a time. Each call of Run
// is a new run. Calls, Logs, Sent and Output return the data of all runs.
func Run[In, Out any](ctx context.Context, e *Env, fn func(context.Context, In) (Out, error), in In) (out Out, err error) {
	input, err := encode(in)
	if err == nil && len(input) > abi.MaxPayloadBytes {
		err = refusal(abi.Errorf(abi.TooLarge, "the input has %d bytes, the limit is %d", len(input), abi.MaxPayloadBytes))
	}
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer e.runs.cut() // ends the children, too
	defer cancel()
	e.begun(ctx, nameOf(fn))
	b, err := iterate(context.WithValue(ctx, envKey{}, e), erase(fn), input)
	err = e.orLost(err)
	if err != nil {
		return out, err
	}
	return out, decode(b, &out)
}

// begun prepares the environment for a run. If there was an earlier run, it forgets that run's names, signals, attributes,
// markers and children.
func (e *Env) begun(ctx context.Context, workflow string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		e.over, e.cancelled, e.iteration = false, false, 0
		e.cutLocked(errTestOver) // ends goroutines of the earlier run
		e.cut, e.ended = newCut(), make(chan struct{})
		e.run.begins()
		e.run.signals, e.run.attributes = map[string][]envSignal{}, map[string]string{}
		e.runs.forget(e)
		e.lost = nil
	}
	e.base, e.workflow = ctx, workflow
}

type (
	envKey  struct{}
	bodyKey struct{}
)

// errNoEnv is the error of a workflow call outside of a workflow.
var errNoEnv = errors.New("workflow: this context is not that of a workflow; tests run workflows by workflow.Run")

// begin records a call whose outcome may come later. If check returns an error, the call is refused.
func begin(ctx context.Context, c *EnvCall, check func(e *Env) error) (*Env, error) {
	e, err := ready(ctx)
	if err != nil {
		return nil, err
	}
	return e, e.make(ctx, c, func() error { return check(e) })
}

// ready returns the environment, or an error if no call may be made or ctx has ended.
func ready(ctx context.Context) (*Env, error) {
	e, err := enter(ctx)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return e, err
}

func doBody(ctx context.Context, name, opts string, body func(Step) ([]byte, error)) ([]byte, error) {
	var o abi.StepOptions
	c := &EnvCall{Kind: "body", Name: name, Options: opts}
	e, err := begin(ctx, c, func(*Env) (err error) {
		err = abi.CheckName("step name", name)
		if err == nil {
			o, err = abi.ParseStepOptions([]byte(opts))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return e.attempts(ctx, c, &o, body)
}

func doCall(ctx context.Context, name, handler string, input []byte, opts string) ([]byte, error) {
	var o abi.StepOptions
	var fn stepFunc
	c := &EnvCall{Kind: "step", Name: name, Target: handler, Input: input, Options: opts}
	if err := checkStepFunc(ctx, handler); err != nil {
		return nil, err
	}
	e, err := begin(ctx, c, func(e *Env) (err error) {
		err = cmp.Or(abi.CheckName("step name", name), abi.CheckHandler(handler), checkPayload("input of step", name, input))
		if err != nil {
			return err
		}
		o, err = abi.ParseStepOptions([]byte(opts))
		if err == nil {
			fn, err = e.handler(handler)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return e.attempts(ctx, c, &o, func(s Step) ([]byte, error) {
		s.Context = elsewhere{s.Context}
		return fn(s, input)
	})
}

// elsewhere is the context of a step that is not performed in the workflow's instance. It ends with the context of the
// workflow's call, but has no deadline.
type elsewhere struct{ context.Context } //nolint:containedctx // it is itself a context

// elsewhereKey is the context key of a value in elsewhere contexts only.
type elsewhereKey struct{}

func (elsewhere) Deadline() (time.Time, bool) { return time.Time{}, false }

func (c elsewhere) Value(key any) any {
	if key == (elsewhereKey{}) {
		return true
	}
	return c.Context.Value(key)
}

// handler returns the function that performs steps for a handler. The caller holds the lock.
func (e *Env) handler(name string) (stepFunc, error) {
	if fn := e.handlers[name]; fn != nil {
		return fn, nil
	}
	if fn := registered.steps[name]; fn != nil {
		return fn, nil
	}
	if strings.HasPrefix(name, abi.HandlerPrefix) {
		return nil, abi.Errorf(abi.UnknownHandler, "no handler %q is registered in this test: workflow.Handle(env, %[1]q, fn)", name)
	}
	return nil, abi.Errorf(abi.UnknownHandler, "the module has no step function %q", name)
}

// checkPayload returns an error if a payload has more than abi.MaxPayloadBytes.
func checkPayload(what, name string, b []byte) error {
	if len(b) > abi.MaxPayloadBytes {
		return abi.Errorf(abi.TooLarge, "%s %q has %d bytes, the limit is %d", what, name, len(b), abi.MaxPayloadBytes)
	}
	return nil
}

// errStepTimeout ends the context of an attempt that ran over the step's timeout.
var errStepTimeout = errors.New("the attempt ran over the step's timeout")

// attempts performs a step according to its options, as the host does, but without jitter. If ctx ends between two attempts,
// the step is withdrawn. If ctx ends during an attempt, attempts waits for its outcome and makes no other attempt.
func (e *Env) attempts(ctx context.Context, c *EnvCall, o *abi.StepOptions, body func(Step) ([]byte, error)) ([]byte, error) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", e.id, c.Iteration, c.Name))
	step := Step{Name: c.Name, Attempts: o.Attempts, IdempotencyKey: fmt.Sprintf("%X", sum[:13])}
	begun := time.Now()
	var failed failures
	for n := 1; ; n++ {
		step.Attempt = n
		began := time.Now()
		b, kind, err := try(context.WithValue(ctx, bodyKey{}, true), abi.Duration(o.TimeoutMs), step, body)
		if err := e.stopIfCut(ctx); err != nil {
			return nil, err
		}
		if err == nil {
			err = checkPayload("result of step", c.Name, b)
			if err == nil {
				b, err = e.outcome(c, b, nil)
				e.tried(c, n)
				return b, err
			}
			return e.outcome(c, nil, failed.complete(&StepError{Code: abi.TooLarge.String(), Name: c.Name, Kind: abi.KindError,
				Message: unprefixed(err), Attempts: n}))
		}
		r := reported(kind, err)
		final := ctx.Err() != nil || o.Attempts > 0 && n >= o.Attempts || r.Retryable != nil && !*r.Retryable ||
			o.AtMostOnce && kind != abi.KindError
		pause := abi.Duration(o.RetryDelayMs(n, 0))
		if r.RetryAfterMs != nil {
			pause = abi.Duration(*r.RetryAfterMs)
		}
		if over := time.Since(begun) + pause; o.MaxElapsedMs > 0 && (over < pause || over > abi.Duration(o.MaxElapsedMs)) {
			final = true
		}
		attempt := &StepError{Code: abi.StepFailed.String(), Name: c.Name, Kind: kind, Type: r.Type, Message: r.Message, Attempts: n}
		if r.Stack != "" {
			attempt.Details = asDecoded(map[string]string{"stack": r.Stack})
		}
		if final {
			return e.outcome(c, nil, withCause(ctx, failed.complete(attempt)))
		}
		failed.add(began, attempt)
		step.LastError = r.Message
		if err := e.pause(ctx, pause); err != nil {
			return e.outcome(c, nil, err)
		}
	}
}

// reported returns the report of an attempt's failure as a host would record it.
func reported(kind string, err error) report {
	r := reportOf(err)
	if p, ok := errors.AsType[panicError](err); ok {
		r = panicReport(p.v, p.stack)
	}
	h, ofHandler := errors.AsType[handlerError](err)
	switch {
	case kind == abi.KindTimeout:
		r.Type = ""
	case ofHandler && kind == abi.KindTrap:
		r.Message, r.Type = h.Error(), ""
	case ofHandler:
		r.Message, r.Type = h.Error(), h.typeName()
	}
	if ofHandler && len(r.json()) > abi.MaxPayloadBytes { // errors of the Go SDK are bounded by now
		r.Message = bounded(r.Message)
	}
	r = received(r)
	if !ofHandler {
		r.Message = cmp.Or(r.Message, "the step failed without a message")
	}
	return r
}

// received returns a report after a round trip through JSON, as a host receives it.
func received(r report) (got report) {
	if json.Unmarshal([]byte(r.json()), &got) != nil {
		return r
	}
	return got
}

// tried records the number of attempts of a successful step.
func (e *Env) tried(c *EnvCall, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.Attempts = n
}

// unprefixed returns the message of an error of package abi without its code.
func unprefixed(err error) string {
	if a, ok := errors.AsType[*abi.Error](err); ok {
		return a.Message
	}
	return err.Error()
}

// panicError is the panic of a body, or of the workflow of a child, as an error.
type panicError struct {
	v     any
	stack []byte
}

func (p panicError) Error() string { return fmt.Sprintf("panic: %v", p.v) }

// Unwrap returns the handlerError if a handler panicked, else nil.
func (p panicError) Unwrap() error {
	if h, ok := p.v.(handlerError); ok {
		return h
	}
	return nil
}

// try makes one attempt. If it fails, try returns the kind of failure.
func try(ctx context.Context, timeout time.Duration, s Step, body func(Step) ([]byte, error)) (b []byte, kind string, err error) {
	over := fmt.Errorf("the attempt ran over the step's timeout of %v", timeout)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(timeout, func() { cancel(over) }).Stop() // as on a host, the context has no deadline
	s.Context = ctx
	defer labelled(unsafe.Pointer(&bodyLabel))()
	defer func() {
		if v := recover(); v != nil {
			b, kind, err = nil, abi.KindTrap, panicError{v, debug.Stack()}
		} else if errors.Is(context.Cause(ctx), over) { // the result is too late
			b, kind, err = nil, abi.KindTimeout, over
		}
	}()
	b, err = body(s)
	if err != nil {
		_ = err.Error() // may panic on a nil pointer
	}
	return b, abi.KindError, err
}

func sleepMs(ctx context.Context, name string, ms int64) error {
	return sleepTo(ctx, name, func(now int64) (int64, error) { return abi.AddMs(now, ms) })
}

func sleepUntilMs(ctx context.Context, name string, unixMs int64) error {
	return sleepTo(ctx, name, func(int64) (int64, error) { return unixMs, abi.CheckUnixMs(unixMs) })
}

func sleepText(ctx context.Context, name, text string) error {
	return sleepTo(ctx, name, func(now int64) (int64, error) { return abi.ParseSleepText(text, now) })
}

func sleepTo(ctx context.Context, name string, due func(now int64) (int64, error)) error {
	var unixMs int64
	c := &EnvCall{Kind: "sleep", Name: name}
	e, err := begin(ctx, c, func(*Env) (err error) {
		err = abi.CheckName("sleep name", name)
		if err == nil {
			unixMs, err = due(time.Now().UnixMilli())
		}
		return err
	})
	if err != nil {
		return err
	}
	_, err = e.outcome(c, nil, e.pause(ctx, max(time.Until(time.UnixMilli(unixMs)), 0)))
	return err
}

func random(ctx context.Context, p []byte) {
	if e, _ := ctx.Value(envKey{}).(*Env); e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		_, _ = e.rng.Read(p) // never fails
	}
}

func logLine(ctx context.Context, _ int32, line string) {
	if e, _ := ctx.Value(envKey{}).(*Env); e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.logs = append(e.logs, line)
	}
}

func warm[In, Out any]() {} // there is no image

// named maps the addresses of registered functions to workflow names; the name is empty if several workflows have the same
// address.
var named = map[uintptr]string{}

func noteName(name string, fn any) {
	pc := reflect.ValueOf(fn).Pointer()
	if _, several := named[pc]; several {
		name = ""
	}
	named[pc] = name
}

// nameOf returns the workflow name of a function, envRunID if it has none.
func nameOf(fn any) string { return cmp.Or(named[reflect.ValueOf(fn).Pointer()], envRunID) }

func readInfo(ctx context.Context) infoJSON {
	e, _ := ctx.Value(envKey{}).(*Env)
	if e == nil {
		return infoJSON{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var attributes map[string]string // nil if there are none
	if len(e.run.attributes) > 0 && ctx.Value(elsewhereKey{}) == nil {
		attributes = maps.Clone(e.run.attributes)
	}
	return infoJSON{RunID: e.id, Workflow: e.workflow, Version: 1, StartedAt: e.began.UnixMilli(), Iteration: e.iteration,
		Position: uint64(len(e.calls)), Attributes: attributes, Memo: e.memo}
}
