// Package worker performs steps of workflows in a separate process, which only needs to reach the server by HTTP. It can run
// behind a firewall, on a machine with special hardware, or with its own release cycle.
//
//	w := worker.New("https://wf.example.com:7777", os.Getenv("WFHOST_TOKEN"))
//	worker.Handle(w, "charge", func(ctx context.Context, in Charge) (Receipt, error) { … })
//	err := w.Run(ctx)
//
// Workflows call the handler as "host/charge", if their version is allowed to, and the server must have been started with
// --worker-handler charge. Workers in other languages use the same HTTP API: see docs/interfaces/workers.md.
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

// Worker takes attempts from a server and performs them. Set its fields before Run and do not change them afterwards.
type Worker struct {
	// Namespace is the namespace of the runs whose steps are performed. Empty means the default namespace.
	Namespace string
	// Name is shown to people and should identify this process. Default: host name and process id.
	Name string
	// Concurrency bounds the concurrent attempts of each handler. Default 10.
	Concurrency int
	// Lease is how long the server waits for a heartbeat before it gives an attempt to another worker. Heartbeats are sent
	// three times as often. From 1 s to 1 h; default 30 s.
	Lease time.Duration
	// Drain is how long Run waits for attempts in flight after its context is done. Then their contexts end, and the server
	// offers them to other workers when their leases have ended. Default 30 s; negative = not at all.
	Drain time.Duration
	// Client makes the requests. The default follows no redirects and has no timeout of its own.
	Client *http.Client
	// Logger logs errors. Default: slog.Default.
	Logger *slog.Logger

	server, token string
	handlers      map[string]Func
}

// Func performs an attempt of a step. Input and result are bytes as in the journal.
type Func func(ctx context.Context, input []byte) (result []byte, err error)

// New returns a Worker for a server, such as http://127.0.0.1:7777, and a token with the scope work. It makes no request.
func New(server, token string) *Worker {
	return &Worker{server: strings.TrimRight(server, "/"), token: token, handlers: map[string]Func{}}
}

// Handle registers a function that performs the steps of a handler. Input and result are JSON. The function may be called
// several times for one step, so it should pass the idempotency key of Info to the systems that it changes. Its context
// ends at the step's timeout, when the workflow cancels the step, when the lease is lost, and after Worker.Drain. An error or
// a panic fails the attempt, which is retried as the step's options say, unless the error is Fatal.
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

// HandleRaw is like Handle for bytes: the input is as in the journal, and the result must be JSON or empty. Registering a name
// again replaces the function.
func (w *Worker) HandleRaw(name string, fn Func) { w.handlers[name] = fn }

// ErrCancelled is the cause of a context that ends because the workflow cancelled the step. The function's outcome is
// recorded.
var ErrCancelled = errors.New("the workflow has cancelled the step")

// ErrLost is the cause of a context that ends because the worker lost the attempt's lease. The function's outcome is not
// recorded.
var ErrLost = errors.New("the lease of the attempt is lost")

type fatal struct{ error }

func (e fatal) Unwrap() error { return e.error }

// Fatal wraps an error so that the step is not retried. Fatal(nil) is nil.
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

// RetryAfter wraps an error so that the step is retried after a delay instead of its backoff. The limit of attempts still
// applies. RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return retryAfter{err, max(d, 0)}
}

type infoKey struct{}

// Info returns the attempt that a function performs. With any other context it returns the zero Attempt.
func Info(ctx context.Context) Attempt {
	a, _ := ctx.Value(infoKey{}).(Attempt)
	return a
}

// maxDetailsBytes is the server's limit for the details of a heartbeat.
const maxDetailsBytes = 4 << 10

// Heartbeat records the progress of a function, so that the next attempt of its step can continue from there: Info has the
// details. They are encoded as JSON of at most 4 KiB and replace earlier details. They are sent with the next heartbeat of
// the lease, three times per lease, and before an error of the function is reported. Details that were not sent are lost
// with the worker.
func Heartbeat(ctx context.Context, details any) error {
	a := Info(ctx)
	if a.progress == nil {
		return errors.New("a heartbeat outside of a handler")
	}
	b, err := json.Marshal(details)
	if err != nil {
		return fmt.Errorf("details of a heartbeat: %w", err)
	}
	if err := checkJSON("the details of a heartbeat", b); err != nil { // for types with their own MarshalJSON
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
		name, _ := os.Hostname() // the process id is enough without it
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

// Run takes and performs attempts until ctx is done, waits up to Drain for attempts in flight, and returns nil. It retries
// while the server cannot be reached. It returns an error if the server refuses the worker for good: the token lacks the
// scope, the handler is not for workers, or the lease is invalid.
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

// call calls the function of an attempt. It turns a panic into an error.
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
