//go:build !wasip1

package workflow

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"
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
}

// NewEnv gives an empty environment.
func NewEnv() *Env {
	return &Env{handlers: map[string]stepFunc{}, names: map[string]bool{}, rng: rand.NewChaCha8([32]byte{}),
		started: time.Now(), run: newEnvRun()}
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
		return codec.Marshal(out)
	}
}

// Steps gives the names of the steps and sleeps that were begun, in order.
func (e *Env) Steps() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.steps...)
}

// Logs gives the lines that were logged.
func (e *Env) Logs() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.logs...)
}

// Run runs a workflow function in an environment. Input and result pass through the codec, as in the host.
func Run[In, Out any](ctx context.Context, e *Env, fn func(context.Context, In) (Out, error), in In) (out Out, err error) {
	input, err := codec.Marshal(in)
	if err != nil {
		return out, err
	}
	b, err := iterate(context.WithValue(ctx, envKey{}, e), erase(fn), input)
	if err != nil {
		return out, err
	}
	return out, decode(b, &out)
}

type (
	envKey  struct{}
	bodyKey struct{}
)

// errNoEnv is the error of a workflow call outside of a workflow.
var errNoEnv = errors.New("workflow: this context is not that of a workflow; tests run workflows by workflow.Run")

// begin takes a name of the run.
func begin(ctx context.Context, name string) (*Env, error) {
	e, _ := ctx.Value(envKey{}).(*Env)
	switch {
	case e == nil:
		return nil, errNoEnv
	case ctx.Value(bodyKey{}) != nil:
		return nil, ErrNotHere
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
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
	if _, err := begin(ctx, name); err != nil {
		return nil, err
	}
	return attempts(context.WithValue(ctx, bodyKey{}, true), name, opts, body)
}

func doCall(ctx context.Context, name, handler string, input []byte, opts string) ([]byte, error) {
	e, err := begin(ctx, name)
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
	return attempts(ctx, name, opts, func(s Step) ([]byte, error) { return fn(s, input) })
}

// attempts tries a step as the options say. Of the options it knows attempts, delay, timeout and the growth of
// the delay; the rest does not change what a test sees.
func attempts(ctx context.Context, name, opts string, body func(Step) ([]byte, error)) ([]byte, error) {
	o := struct {
		Attempts *int    `json:"attempts"`
		Delay    string  `json:"delay"`
		Backoff  string  `json:"backoff"`
		Factor   float64 `json:"factor"`
		Timeout  string  `json:"timeout"`
	}{Delay: "1s", Backoff: "exponential", Factor: 2, Timeout: "10m"}
	if opts != "" {
		if err := json.Unmarshal([]byte(opts), &o); err != nil {
			return nil, err
		}
	}
	limit := 3
	if o.Attempts != nil {
		limit = *o.Attempts
	}
	delay, _ := time.ParseDuration(o.Delay) // made by Delay
	timeout, _ := time.ParseDuration(o.Timeout)
	sum := sha256.Sum256([]byte(name))
	step := Step{Name: name, Attempts: limit, IdempotencyKey: fmt.Sprintf("%X", sum[:13])}
	for n := 1; ; n++ {
		step.Attempt = n
		b, err := try(ctx, timeout, step, body)
		if err == nil {
			return b, nil
		}
		r := reportOf(err)
		if n == limit || r.Retryable != nil && !*r.Retryable || ctx.Err() != nil {
			return nil, &StepError{Code: "STEP_FAILED", Name: name, Kind: "error", Type: r.Type, Message: r.Message, Attempts: n}
		}
		step.LastError = r.Message
		pause := delay
		if r.RetryAfterMs != nil {
			pause = fromMillis(*r.RetryAfterMs)
		}
		if err := pauseFor(ctx, pause); err != nil {
			return nil, err
		}
		if o.Backoff == "exponential" {
			delay = time.Duration(min(float64(delay)*o.Factor, float64(longest/2)))
		}
	}
}

func try(ctx context.Context, timeout time.Duration, s Step, body func(Step) ([]byte, error)) (b []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s.Context = ctx
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return body(s)
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
	if ms < 0 {
		return &StepError{Code: "INVALID_DURATION", Name: name, Message: "duration must not be negative"}
	}
	if _, err := begin(ctx, name); err != nil {
		return err
	}
	return pauseFor(ctx, fromMillis(ms))
}

func sleepUntilMs(ctx context.Context, name string, unixMs int64) error {
	return sleepMs(ctx, name, max(unixMs-time.Now().UnixMilli(), 0))
}

func sleepText(ctx context.Context, name, text string) error {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return sleepUntilMs(ctx, name, t.UnixMilli())
	}
	ms, err := parseDuration(text)
	if err != nil {
		return &StepError{Code: "INVALID_DURATION", Name: name, Message: err.Error()}
	}
	return sleepMs(ctx, name, ms)
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
	return infoJSON{RunID: "test", Workflow: "test", Version: 1, StartedAt: e.started.UnixMilli(), Iteration: e.iteration}
}
