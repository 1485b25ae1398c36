//go:build !wasip1

package workflow

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/wfhost/wfhost/abi"
)

// Env is an in-memory environment for tests of workflow functions with go test. Sleeps and delays take the time
// of package time, so that a test inside a testing/synctest bubble does not wait. Nothing is durable here.
type Env struct {
	mu       sync.Mutex
	handlers map[string]stepFunc
	names    map[string]bool
	steps    []string
	logs     []string
	rng      *rand.ChaCha8
	started  time.Time

	iteration uint32
	run       envRun

	id        string
	parent    *Env // of a child
	runs      *envRuns
	workflows map[string]workflowFunc // that stand in for others
	lost      error                   // the first change that a body has lost
	ended     bool
}

// NewEnv returns an empty environment.
func NewEnv() *Env {
	e := &Env{handlers: map[string]stepFunc{}, names: map[string]bool{}, rng: rand.NewChaCha8([32]byte{}),
		started: time.Now(), run: newEnvRun(), id: envRunID, workflows: map[string]workflowFunc{}}
	e.runs = &envRuns{byID: map[string]*Env{e.id: e}}
	return e
}

// Handle stands in for a handler that workflows call by this name, such as "host/mail".
func Handle[In, Out any](e *Env, name string, fn func(s Step, in In) (Out, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.handlers[name] = func(s Step, input []byte) ([]byte, error) {
		var in In
		if err := decode(input, &in); err != nil {
			return nil, Fatal(err)
		}
		out, err := fn(s, in)
		if err != nil {
			return nil, err
		}
		return encode(out)
	}
}

// Steps returns the names of the steps and sleeps that were begun, in order.
func (e *Env) Steps() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.steps...)
}

// Logs returns the lines that were logged.
func (e *Env) Logs() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.logs...)
}

// Run runs a workflow function in an environment. Input and result pass through the codec, as in the host. A body that
// changes what is outside of it fails the run with ErrLostChange.
func Run[In, Out any](ctx context.Context, e *Env, fn func(context.Context, In) (Out, error), in In) (out Out, err error) {
	input, err := encode(in)
	if err != nil {
		return out, err
	}
	e.begun()
	b, err := iterate(context.WithValue(ctx, envKey{}, e), erase(fn), input)
	if err = e.orLost(err); err != nil {
		return out, err
	}
	return out, decode(b, &out)
}

// begun has the environment take signals: it may have run another workflow before.
func (e *Env) begun() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = false
}

type (
	envKey  struct{}
	bodyKey struct{}
)

// errNoEnv is the error of a workflow call outside of a workflow.
var errNoEnv = errors.New("workflow: this context is not that of a workflow; tests run workflows by workflow.Run")

// refusal returns an error of package abi as the host hands it over.
func refusal(name string, err error) error {
	e := &StepError{Code: abi.InvalidArgument.String(), Name: name, Message: err.Error()}
	if a, ok := errors.AsType[*abi.Error](err); ok {
		e.Code, e.Message = a.Code.String(), a.Message
	}
	return e
}

// begin takes a name of the run. what says in an error whose it is, such as "step name".
func begin(ctx context.Context, what, name string) (*Env, error) {
	e, _ := ctx.Value(envKey{}).(*Env)
	switch {
	case e == nil:
		return nil, errNoEnv
	case inBody(ctx):
		return nil, ErrNotHere
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	if err := abi.CheckName(what, name); err != nil {
		return nil, refusal(name, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.names[name] {
		return nil, &StepError{Code: "DUPLICATE_NAME", Name: name, Message: "the name is used twice in this run"}
	}
	e.names[name] = true
	e.steps = append(e.steps, name)
	return e, nil
}

func doBody(ctx context.Context, name, opts string, body func(Step) ([]byte, error)) ([]byte, error) {
	o, err := abi.ParseStepOptions([]byte(opts))
	if err != nil {
		return nil, refusal(name, err)
	}
	if _, err := begin(ctx, "step name", name); err != nil {
		return nil, err
	}
	return attempts(context.WithValue(ctx, bodyKey{}, true), name, &o, body)
}

func doCall(ctx context.Context, name, handler string, input []byte, opts string) ([]byte, error) {
	o, err := abi.ParseStepOptions([]byte(opts))
	if err != nil {
		return nil, refusal(name, err)
	}
	e, err := begin(ctx, "step name", name)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	fn := e.handlers[handler]
	e.mu.Unlock()
	if fn == nil {
		fn = registered.steps[handler]
	}
	if fn == nil {
		return nil, &StepError{Code: "UNKNOWN_HANDLER", Name: name, Message: fmt.Sprintf("no handler %q", handler)}
	}
	ctx = context.WithValue(ctx, bodyKey{}, true)
	return attempts(ctx, name, &o, func(s Step) ([]byte, error) { return fn(s, input) })
}

// errStepTimeout ends the context of an attempt that ran over the step's timeout.
var errStepTimeout = errors.New("the attempt ran over the step's timeout")

// attempts tries a step as its options say, and as the host does, but for jitter: here chance takes nothing away. An attempt
// that does not look at its context is waited for.
func attempts(ctx context.Context, name string, o *abi.StepOptions, body func(Step) ([]byte, error)) ([]byte, error) {
	sum := sha256.Sum256([]byte(name))
	step := Step{Name: name, Attempts: o.Attempts, IdempotencyKey: fmt.Sprintf("%X", sum[:13])}
	begun := time.Now()
	for n := 1; ; n++ {
		step.Attempt = n
		b, kind, err := try(ctx, abi.Duration(o.TimeoutMs), step, body)
		if err == nil {
			return b, nil
		}
		r := reportOf(err)
		final := o.Attempts > 0 && n >= o.Attempts || r.Retryable != nil && !*r.Retryable || ctx.Err() != nil ||
			o.AtMostOnce && kind != abi.KindError
		pause := abi.Duration(o.RetryDelayMs(n, 0))
		if r.RetryAfterMs != nil {
			pause = abi.Duration(*r.RetryAfterMs)
		}
		if over := time.Since(begun) + pause; o.MaxElapsedMs > 0 && (over < pause || over > abi.Duration(o.MaxElapsedMs)) {
			final = true
		}
		if final {
			return nil, withCause(ctx, &StepError{Code: abi.StepFailed.String(), Name: name, Kind: kind, Type: r.Type,
				Message: r.Message, Attempts: n})
		}
		step.LastError = r.Message
		if err := pauseFor(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// try makes one attempt, and returns the kind of its failure.
func try(ctx context.Context, timeout time.Duration, s Step, body func(Step) ([]byte, error)) (b []byte, kind string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errStepTimeout)
	defer cancel()
	s.Context = ctx
	defer func() {
		if v := recover(); v != nil {
			b, kind, err = nil, abi.KindTrap, fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		} else if errors.Is(context.Cause(ctx), errStepTimeout) { // whatever came of it is too late
			b, kind, err = nil, abi.KindTimeout, errStepTimeout
		}
	}()
	b, err = body(s)
	return b, abi.KindError, err
}

func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func sleepMs(ctx context.Context, name string, ms int64) error {
	if _, err := abi.AddMs(time.Now().UnixMilli(), ms); err != nil {
		return refusal(name, err)
	}
	if _, err := begin(ctx, "sleep name", name); err != nil {
		return err
	}
	return pauseFor(ctx, abi.Duration(ms))
}

func sleepUntilMs(ctx context.Context, name string, unixMs int64) error {
	if err := abi.CheckUnixMs(unixMs); err != nil {
		return refusal(name, err)
	}
	if _, err := begin(ctx, "sleep name", name); err != nil {
		return err
	}
	return pauseFor(ctx, max(time.Until(time.UnixMilli(unixMs)), 0))
}

func sleepText(ctx context.Context, name, text string) error {
	due, err := abi.ParseSleepText(text, time.Now().UnixMilli())
	if err != nil {
		return refusal(name, err)
	}
	return sleepUntilMs(ctx, name, due)
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

func readInfo(ctx context.Context) infoJSON {
	e, _ := ctx.Value(envKey{}).(*Env)
	if e == nil {
		return infoJSON{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return infoJSON{RunID: e.id, Workflow: "test", Version: 1, StartedAt: e.started.UnixMilli(), Iteration: e.iteration,
		Attributes: maps.Clone(e.run.attributes)}
}
