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

// HandleStep registers a Go function that performs steps. Workflows call it by "host/" and the name, if their version
// is allowed to (AllowStep). The input and the result are JSON. A handler may be called several times for one step,
// and should pass the idempotency key of StepInfo to whatever it changes. Its context ends at the step's timeout,
// when the run ends, and when the workflow cancels the step; the outcome of a cancelled step is still recorded. Fatal
// and RetryAfter control the retries; a panic is a failed attempt.
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
			err = checkJSON("it", b) // of what marshals itself
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
		// The journal keeps what comes in and what goes out; the handler may continue to use either.
		a.Details = h.workers.progress.Latest(&a)
		ctx = context.WithValue(ctx, beatKey{}, func(details []byte) error { return h.beat(a, details) })
		failed := true
		defer func() { // by a panic, too
			if failed { // the next attempt continues from there, whatever becomes of this host
				h.workers.progress.Flush(a.IdempotencyKey)
			}
		}()
		out, err := fn(context.WithValue(ctx, stepKey{}, h.stepOf(&a)), bytes.Clone(input))
		failed = err != nil
		return bytes.Clone(out), err
	})
}

type stepKey struct{}

// Step says what a handler is called for.
type Step struct {
	Namespace string // empty in the default namespace

	RunID    string
	Workflow string
	Version  uint32
	Name     string    // of the step, unique in the run
	Seq      store.Seq // of the call in the run's journal
	Attempt  int       // from 1
	Attempts int       // at most; 0 = no limit
	// IdempotencyKey is the same over all attempts of this step, restarts of the host included.
	IdempotencyKey string
	// AtMostOnce says that the step is not tried again if nobody knows what became of an attempt.
	AtMostOnce bool
	// Timeout is how long this attempt may take from when the handler is called.
	Timeout time.Duration
	// Details is the JSON that Heartbeat has recorded last, in an attempt before this one; for a worker also in this
	// attempt, if another worker had it before. Nil: nothing.
	Details json.RawMessage

	ns          store.NamespaceID
	incarnation store.Incarnation
	traceParent string // under which the run was started
}

// TraceParent returns the header traceparent of W3C Trace Context for requests of this attempt: the trace id is the
// run's. It is computed when it is asked for, since two hashes are a good part of what a step costs. Of a zero Step it
// is empty.
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

// StepInfo returns the step for which a handler is called. Outside of a handler it returns the zero Step.
func StepInfo(ctx context.Context) Step {
	s, _ := ctx.Value(stepKey{}).(Step)
	return s
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

// HTTP performs a request for the step that a handler is called for, under what the version of its workflow may request
// (AllowHTTP, AllowSecret). The header traceparent is the attempt's unless there is another one. ErrDenied if it may not,
// ErrLimit for a response that is too large.
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
