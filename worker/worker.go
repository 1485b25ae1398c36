// Package worker performs steps of workflows in a process of its own, which needs nothing but to reach the server by HTTP:
// behind a firewall, on a machine with the right hardware, in a release of its own.
//
//	w := worker.New("https://wf.example.com:7777", os.Getenv("WFHOST_TOKEN"))
//	worker.Handle(w, "charge", func(ctx context.Context, in Charge) (Receipt, error) { … })
//	err := w.Run(ctx)
//
// Workflows call the handler as "host/charge", if their version is allowed to, on a server that was started with
// --worker-handler charge. Other languages speak the same HTTP: see docs/workers.md.
package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// Worker takes attempts from a server and performs them. Its fields are set before Run, and not changed after.
type Worker struct {
	// Namespace is that of the runs whose steps are performed; empty is the default one.
	Namespace string
	// Name is shown to people, and should tell this process from others. Default: host name and process id.
	Name string
	// Concurrency is how many attempts of each handler are performed at a time. Default 10.
	Concurrency int
	// Lease is how long the server waits for a sign of life before another worker gets an attempt. Heartbeats come
	// three times as often. From 1 s to 1 h; default 30 s.
	Lease time.Duration
	// Drain is how long Run waits, when its context is done, for attempts in flight. Then their contexts end, and the
	// server offers them to another worker when the leases have ended. Default 30 s; negative = not at all.
	Drain time.Duration
	// Client makes the requests. Default: one that follows no redirects, and no time limit of its own.
	Client *http.Client
	// Logger takes what goes wrong. Default: slog.Default.
	Logger *slog.Logger

	server, token string
	handlers      map[string]Func
}

// Func performs an attempt of a step: it takes the input and returns the result, both as they are in the journal.
type Func func(ctx context.Context, input []byte) (result []byte, err error)

// New returns a Worker for a server, such as http://127.0.0.1:7777, and a token with the scope work. It makes no request.
func New(server, token string) *Worker {
	return &Worker{server: strings.TrimRight(server, "/"), token: token, handlers: map[string]Func{}}
}

// Handle registers a function that performs the steps of a handler. Input and result are JSON. It may be called several
// times for one step, and should hand the idempotency key of Info to whatever it changes. Its context ends at the step's
// timeout, when the workflow cancels the step, when the lease is lost, and after Worker.Drain. An error is a failed attempt,
// which the options of the step have tried again, unless it is Fatal; so is a panic.
func Handle[In, Out any](w *Worker, name string, fn func(ctx context.Context, in In) (Out, error)) {
	w.HandleRaw(name, func(ctx context.Context, input []byte) ([]byte, error) {
		var in In
		if len(input) > 0 {
			if err := json.Unmarshal(input, &in); err != nil {
				return nil, Fatal(fmt.Errorf("input of handler %q: %w", name, err))
			}
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		b, err := json.Marshal(out)
		if err != nil {
			return nil, Fatal(fmt.Errorf("result of handler %q: %w", name, err))
		}
		return b, nil
	})
}

// HandleRaw is Handle for bytes: the input is as it is in the journal, and the result must be JSON, or nothing. Registering a
// name again replaces the function.
func (w *Worker) HandleRaw(name string, fn Func) { w.handlers[name] = fn }

// ErrCancelled is the cause of a context that ends since the workflow has cancelled the step. What the function returns is
// recorded.
var ErrCancelled = errors.New("the workflow has cancelled the step")

// ErrLost is the cause of a context that ends since the attempt is not this worker's any more. What the function
// returns is not recorded.
var ErrLost = errors.New("the lease of the attempt is lost")

type fatal struct{ error }

func (e fatal) Unwrap() error { return e.error }

// Fatal wraps an error after which the step must not be retried. Fatal(nil) is nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return fatal{err}
}

type retryAfter struct {
	error
	after time.Duration
}

func (e retryAfter) Unwrap() error { return e.error }

// RetryAfter wraps an error with the delay after which the step is to be retried, in place of its backoff. The number
// of attempts still counts. RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return retryAfter{err, max(d, 0)}
}

type infoKey struct{}

// Info returns the attempt that a function is called for. Outside of one it is zero.
func Info(ctx context.Context) Attempt {
	a, _ := ctx.Value(infoKey{}).(Attempt)
	return a
}

// maxDetailsBytes is what the server takes as details of a heartbeat.
const maxDetailsBytes = 4 << 10

// Heartbeat records how far a function has come, so that the next attempt of its step can continue from there: it finds
// the details in Info. They are encoded as JSON, of at most 4 KiB, replace those before, and are sent with the next
// heartbeat of the lease, three times in a lease, and before an error of the function is handed in. Details of which no
// heartbeat came are lost with the worker.
func Heartbeat(ctx context.Context, details any) error {
	a := Info(ctx)
	if a.progress == nil {
		return errors.New("a heartbeat outside of a handler")
	}
	b, err := json.Marshal(details)
	if err != nil {
		return fmt.Errorf("details of a heartbeat: %w", err)
	}
	if err := checkJSON("the details of a heartbeat", b); err != nil { // of what marshals itself
		return err
	}
	if len(b) > maxDetailsBytes {
		return fmt.Errorf("details of a heartbeat have at most %d bytes as JSON, got %d", maxDetailsBytes, len(b))
	}
	a.progress.set(b)
	return nil
}

// Defaults of the fields of a Worker.
const (
	defaultConcurrency = 10
	defaultLease       = 30 * time.Second
	defaultDrain       = 30 * time.Second
)

func (w *Worker) setDefaults() {
	if w.Name == "" {
		name, _ := os.Hostname() // without one, the process id does
		w.Name = fmt.Sprintf("%s/%d", name, os.Getpid())
	}
	if w.Concurrency == 0 {
		w.Concurrency = defaultConcurrency
	}
	if w.Lease == 0 {
		w.Lease = defaultLease
	}
	if w.Drain == 0 {
		w.Drain = defaultDrain
	}
	if w.Client == nil {
		w.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if w.Logger == nil {
		w.Logger = slog.Default()
	}
}

// Run takes attempts and performs them until ctx is done, and waits for those in flight for as long as Drain. Then
// it returns nil. It continues when the server cannot be reached. It returns an error if the server refuses the worker for
// good: a token without the scope, a handler that is not for workers, a lease that cannot be.
func (w *Worker) Run(ctx context.Context) error {
	w.setDefaults()
	if len(w.handlers) == 0 {
		return errors.New("a worker needs at least one handler: call worker.Handle before Run")
	}
	if w.Concurrency < 1 {
		return fmt.Errorf("the concurrency of a worker is at least 1, got %d", w.Concurrency)
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	polling, end := context.WithCancelCause(ctx)
	defer end(nil)
	var polls, jobs sync.WaitGroup
	for name := range w.handlers {
		polls.Go(func() {
			slots := make(chan struct{}, w.Concurrency)
			if err := w.poll(polling, name, slots, func(a Attempt) {
				jobs.Go(func() {
					defer func() { <-slots }()
					w.perform(working, a)
				})
			}); err != nil {
				end(err)
			}
		})
	}
	polls.Wait()
	idle := make(chan struct{})
	go func() { jobs.Wait(); close(idle) }()
	late, cancel := context.WithTimeout(working, max(w.Drain, 0))
	defer cancel()
	select {
	case <-idle:
	case <-late.Done():
		stop()
		<-idle
	}
	if cause := context.Cause(polling); ctx.Err() == nil {
		return cause
	}
	return nil
}

// call calls the function of an attempt; a panic is an error.
func (w *Worker) call(ctx context.Context, a Attempt) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			w.Logger.Error("a handler panicked", "handler", a.Handler, "run", a.Run, "step", a.Step, "panic", r,
				"stack", string(debug.Stack()))
			err = &panicked{r}
		}
	}()
	return w.handlers[a.Handler](context.WithValue(ctx, infoKey{}, a), a.input())
}

type panicked struct{ value any }

func (e *panicked) Error() string { return fmt.Sprintf("the handler panicked: %v", e.value) }
