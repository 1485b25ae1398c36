package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/egress"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/traceid"
	"github.com/wfhost/wfhost/store"
)

// HandleStep registers a Go function that performs steps. Workflows call it as "host/" and the name, if their version
// is allowed to (AllowStep). The input and the result are JSON. A handler may be called several times for one step,
// so it should pass the idempotency key of StepInfo to the systems that it changes. Its context ends at the step's
// timeout, when the run ends, and when the workflow cancels the step; the outcome of a cancelled step is still
// recorded. Fatal and RetryAfter control the retries. A panic is a failed attempt.
//
// Registering a name again replaces the handler. Register handlers before Run.
func HandleStep[In, Out any](h *Host, name string, fn func(ctx context.Context, in In) (Out, error)) {
	h.HandleRawStep(name, func(ctx context.Context, input []byte) ([]byte, error) {
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
		if err == nil {
			err = checkJSON("it", b) // a MarshalJSON of the handler may return anything
		}
		if err != nil {
			return nil, Fatal(fmt.Errorf("result of handler %q: %w", name, err))
		}
		return b, nil
	})
}

// HandleRawStep is HandleStep for a handler that takes and returns bytes.
func (h *Host) HandleRawStep(name string, fn func(ctx context.Context, input []byte) ([]byte, error)) {
	h.remotes.Delete(name)
	h.handlers.add(func(other *Host) { other.HandleRawStep(name, fn) })
	h.rt.Handle(name, func(ctx context.Context, a handler.Attempt, input []byte) ([]byte, error) {
		// The journal keeps the input and the output; the handler may reuse both buffers.
		a.Details = h.workers.progress.Latest(&a)
		failed := true
		defer func() { // also after a panic
			if failed { // the next attempt continues from these details, even if this host ends
				h.workers.progress.Flush(a.IdempotencyKey)
			}
		}()
		out, err := fn(&attemptContext{ctx, h, a}, bytes.Clone(input))
		failed = err != nil
		return bytes.Clone(out), err
	})
}

// attemptContext is the context of a handler's call. StepInfo and Heartbeat find the attempt in it.
type attemptContext struct {
	context.Context
	host    *Host
	attempt handler.Attempt
}

// Value returns the attemptContext itself for an attemptKey.
func (c *attemptContext) Value(key any) any {
	if _, ok := key.(attemptKey); ok {
		return c
	}
	return c.Context.Value(key)
}

type attemptKey struct{}

// Step describes the step that a handler is called for.
type Step struct {
	Namespace string // empty in the default namespace

	RunID    string
	Workflow string
	Version  uint32
	Name     string    // of the step, unique in the run
	Seq      store.Seq // of the call in the run's journal
	Attempt  int       // from 1
	Attempts int       // the maximum; 0 = no limit
	// IdempotencyKey is the same for all attempts of this step, also across restarts of the host.
	IdempotencyKey string
	// AtMostOnce says that the step is not retried if the outcome of an attempt is unknown.
	AtMostOnce bool
	// Timeout is the time limit of this attempt, from the call of the handler.
	Timeout time.Duration
	// Details is the JSON of the latest Heartbeat of an earlier attempt. For a worker, it may be of this attempt, if
	// another worker had it before. Nil: no details.
	Details json.RawMessage

	ns          store.NamespaceID
	incarnation store.Incarnation
	traceParent string // that the run was started with
}

// TraceParent returns the header traceparent of W3C Trace Context for requests of this attempt. Its trace id is the
// run's. It is computed on demand: its two hashes are a good part of the cost of a step. For a zero Step it is empty.
func (s *Step) TraceParent() string {
	if s.Attempt == 0 {
		return ""
	}
	return s.span().Context().String()
}

func (s *Step) span() traceid.Attempt {
	return traceid.Attempt{Incarnation: s.incarnation, Header: s.traceParent, IdempotencyKey: s.IdempotencyKey,
		Number: uint32(s.Attempt)}
}

func (h *Host) stepOf(a *handler.Attempt) Step {
	return Step{Namespace: h.nameOf(a.Run.Namespace), ns: a.Run.Namespace, RunID: a.Run.ID, Workflow: a.Workflow,
		Version: a.Version, Name: a.Step, Seq: a.Seq, Attempt: int(a.Number), Attempts: a.Attempts,
		IdempotencyKey: a.IdempotencyKey, AtMostOnce: a.AtMostOnce, Timeout: a.Timeout,
		Details: bytes.Clone(a.Details), incarnation: a.Incarnation, traceParent: a.TraceParent}
}

// StepInfo returns the step that a handler is called for. Outside of a handler it returns the zero Step.
func StepInfo(ctx context.Context) Step {
	c, ok := ctx.Value(attemptKey{}).(*attemptContext)
	if !ok {
		return Step{}
	}
	return c.host.stepOf(&c.attempt)
}

// HTTPRequest is the head of a request that [Host.HTTP] performs:
//
//	Method    string              `json:"method"`
//	URL       string              `json:"url"`
//	Headers   map[string][]string `json:"headers,omitempty"`
//	TimeoutMs int64               `json:"timeout_ms,omitempty"`
//	Redirect  string              `json:"redirect,omitempty"` // follow (the default), manual or error
type HTTPRequest = egress.Request

// HTTPResponse is the head of a response that [Host.HTTP] returns:
//
//	Status     int                 `json:"status"`
//	Headers    map[string][]string `json:"headers,omitempty"`
//	Redirected bool                `json:"redirected,omitempty"` // whether redirects were followed
//	URL        string              `json:"url,omitempty"`        // where they led to
type HTTPResponse = egress.Response

// ErrDenied is the error of a request that the grants of a version do not allow.
var ErrDenied = errors.New("not allowed")

// HTTP performs a request for the step that a handler is called for, under the grants of the version of its workflow
// (AllowHTTP, AllowSecret). It adds the attempt's header traceparent unless the request has one. ErrDenied if the
// grants do not allow the request, ErrLimit if the response is too large.
func (h *Host) HTTP(ctx context.Context, r HTTPRequest, body []byte) (HTTPResponse, []byte, error) {
	s := StepInfo(ctx)
	if s.Attempt > 0 {
		ctx = traceid.With(ctx, s.span())
	}
	v, err := h.store.Modules().Version(ctx, s.ns, s.Workflow, s.Version)
	if err != nil {
		return HTTPResponse{}, nil, translate(err)
	}
	res, answer, err := egress.Do(ctx, egress.NewPolicy(v.Grants.HTTPHosts, v.Grants.Secrets, h.cfg.Secrets), r, body)
	if e, ok := errors.AsType[*abi.Error](err); ok {
		switch e.Code {
		case abi.Denied:
			return res, nil, &joined{err, ErrDenied}
		case abi.StepFailed:
			return res, nil, err
		}
	}
	return res, answer, translate(err)
}
