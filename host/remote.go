package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Limits of workers.
const (
	// MaxBatch is how many attempts a worker takes at once. With more, attempts would queue in one worker while other
	// workers are idle.
	MaxBatch = 100
	// MaxTakeWait is the longest time that a worker waits for an attempt: proxies cut longer requests.
	MaxTakeWait = time.Minute
	// DefaultLease is the lease of a worker that specifies none. MinLease and MaxLease bound leases: a shorter lease
	// is lost when a machine is busy; with a longer one, a dead worker blocks its attempts for too long.
	DefaultLease       = 30 * time.Second
	MinLease, MaxLease = time.Second, time.Hour
	// MaxWorkerNameBytes bounds the name of a worker, which has one line in a list.
	MaxWorkerNameBytes = 128
	// MaxFailureBytes bounds the message and the type of a failure, which are recorded for each attempt.
	MaxFailureBytes = 16 << 10
)

// ErrLeaseLost is the error of a worker that no longer has the attempt: its lease has ended, its run has ended, or
// its outcome is known.
var ErrLeaseLost = errors.New("lease is lost")

// HandleRemote declares that workers perform the steps of a handler: they take its attempts with Attempts.Take.
// Attempts wait for a worker without limit: the timeout of a step begins when a worker takes it. Registering a name
// again, with HandleStep or HandleRemote, replaces the handler. Register handlers before Run. ErrInvalid for a name
// that no step can call.
func (h *Host) HandleRemote(name string) error {
	if name == "" {
		return fmt.Errorf("%w: the name of a handler is empty", ErrInvalid)
	}
	if err := abi.CheckHandler(abi.HandlerPrefix + name); err != nil {
		return translate(err)
	}
	h.remotes.Store(name, true)
	h.handlers.add(func(other *Host) { _ = other.HandleRemote(name) }) // cannot fail: the name was valid here
	h.rt.HandleRemote(name, h.workers)
	return nil
}

// TakeOptions are the options of Attempts.Take. The zero value takes one attempt, without waiting.
type TakeOptions struct {
	Worker string        // its name, for people: at most MaxWorkerNameBytes
	Max    int           // the maximum number of attempts, at most MaxBatch; default 1
	Wait   time.Duration // how long it waits for the first one, at most MaxTakeWait
	Lease  time.Duration // MinLease to MaxLease; default DefaultLease
}

func (o *TakeOptions) check() error {
	if o.Max == 0 {
		o.Max = 1
	}
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	switch {
	case len(o.Worker) > MaxWorkerNameBytes:
		return fmt.Errorf("%w: the name of a worker has at most %d bytes, got %d", ErrInvalid, MaxWorkerNameBytes, len(o.Worker))
	case !utf8.ValidString(o.Worker) || strings.ContainsFunc(o.Worker, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("%w: the name of a worker is UTF-8 without control characters, got %q", ErrInvalid, o.Worker)
	case o.Max < 1 || o.Max > MaxBatch:
		return fmt.Errorf("%w: a worker takes from 1 to %d attempts at once, got %d", ErrInvalid, MaxBatch, o.Max)
	case o.Wait < 0 || o.Wait > MaxTakeWait:
		return fmt.Errorf("%w: a worker waits from 0s to %v for an attempt, got %v", ErrInvalid, MaxTakeWait, o.Wait)
	}
	return checkLease(o.Lease)
}

func checkLease(d time.Duration) error {
	if d < MinLease || d > MaxLease {
		return fmt.Errorf("%w: a lease lasts from %v to %v, got %v", ErrInvalid, MinLease, MaxLease, d)
	}
	return nil
}

// Attempt is an attempt of a step that a worker has taken.
type Attempt struct {
	Step
	Handler  string
	Input    []byte // as the workflow gave it; JSON from the Go SDK
	Lease    string // identifies the attempt in Heartbeat, Attempts.Complete, Attempts.Fail and Attempts.Release
	Delivery int    // how often the attempt was taken, including this time; more than 1 after a worker was lost
	// Until is when the lease ends without a heartbeat.
	Until time.Time
	// Deadline is when the step's timeout ends the attempt, whatever the worker does.
	Deadline time.Time
}

// queue returns the queue of a handler, or ErrNotFound if the handler is not for workers.
func (s *nsRef) queue(ctx context.Context, name string) (handler.WorkerQueue, error) {
	if _, ok := s.h.remotes.Load(name); !ok {
		return handler.WorkerQueue{}, fmt.Errorf("%w: handler %.300q is not for workers: "+
			"name it with `wfhost serve --worker-handler`, or Host.HandleRemote", ErrNotFound, name)
	}
	ns, err := s.id(ctx, false)
	return handler.WorkerQueue{Namespace: ns, Handler: name}, translate(err)
}

// Take takes attempts of a handler that was declared by HandleRemote, from this namespace, longest waiting
// first. The worker has each attempt until its lease ends, and extends the lease by heartbeats. When the lease ends,
// another worker gets the attempt, up to five times; then the attempt has failed. A worker must begin an attempt with
// AtMostOnce by a heartbeat, and act only after the heartbeat has succeeded. From then on, the end of the lease ends
// the step.
//
// It returns no attempts if none comes within o.Wait, ErrNotFound if the handler is not for workers, ErrInvalid for
// invalid options, and ErrClosed if the host is stopping.
func (s Attempts) Take(ctx context.Context, name string, o TakeOptions) ([]Attempt, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	q, err := s.queue(ctx, name)
	if err != nil {
		return nil, err
	}
	offers, err := s.h.workers.Take(ctx, q, handler.TakeRequest{Worker: o.Worker, Max: o.Max, Wait: o.Wait, Lease: o.Lease})
	list := []Attempt{}
	for _, x := range offers {
		list = append(list, Attempt{Step: s.h.stepOf(&x.Attempt), Handler: name, Input: bytes.Clone(x.Input),
			Lease:    s.h.leaseOf(x.Attempt.Run, x.Lease),
			Delivery: x.Delivery, Until: x.Until, Deadline: x.Deadline})
	}
	return list, workerError(err)
}

// workerError translates an error of the broker.
func workerError(err error) error {
	switch {
	case errors.Is(err, handler.ErrLost):
		return &joined{err, ErrLeaseLost}
	case errors.Is(err, handler.ErrNotBegun):
		return &joined{err, ErrConflict}
	case errors.Is(err, handler.ErrDraining):
		return &joined{err, ErrClosed}
	}
	return translate(err)
}

// Lease is a worker's lease of an attempt.
type Lease struct {
	Until time.Time `json:"until"` // never after the attempt's deadline
	// Cancelled says that the workflow has cancelled the step: the worker should finish, and hand in what it has
	// done. The step is not retried.
	Cancelled bool `json:"cancelled"`
}

// Heartbeat says that a worker has begun an attempt and works on it. It extends the lease until d from now; 0 is
// DefaultLease. ErrLeaseLost if the worker no longer has the attempt: it should stop.
func (s Attempts) Heartbeat(ctx context.Context, handler, lease string, d time.Duration) (Lease, error) {
	if d == 0 {
		d = DefaultLease
	}
	if err := checkLease(d); err != nil {
		return Lease{}, err
	}
	q, err := s.queue(ctx, handler)
	if err != nil {
		return Lease{}, err
	}
	until, cancelled, err := s.h.workers.Extend(q, ownLease(lease), d)
	return Lease{Until: until, Cancelled: cancelled}, workerError(err)
}

// Complete hands in the result of an attempt: JSON of at most abi.MaxPayloadBytes, or nothing. It is durable
// on return. ErrInvalid if it is no JSON. ErrLeaseLost if the result is no longer expected: another worker may have
// done the attempt. ErrConflict for an attempt with AtMostOnce that was not begun by a heartbeat. If ctx ends first,
// the outcome is unknown.
func (s Attempts) Complete(ctx context.Context, handler, lease string, result []byte) error {
	if len(result) > abi.MaxPayloadBytes {
		return fmt.Errorf("%w: a result has at most %d bytes, got %d", ErrLimit, abi.MaxPayloadBytes, len(result))
	}
	if err := checkJSON(fmt.Sprintf("the result of handler %q", handler), result); err != nil {
		return err
	}
	return s.handIn(ctx, handler, lease, run.StepOutcome{Data: bytes.Clone(result)})
}

// Failure describes a failed attempt.
type Failure struct {
	Message string // at most MaxFailureBytes
	Type    string // the type of the error, for the workflow; may be empty
	Fatal   bool   // it must not be retried
	// RetryAfter is the delay before the retry, in place of the step's backoff; if negative, the backoff applies.
	RetryAfter time.Duration
	Details    json.RawMessage // for the workflow; none, or JSON of at most MaxFailureBytes
}

// Fail hands in the failure of an attempt. The options of the step say whether it is retried. Durability and
// errors are as for Attempts.Complete.
func (s Attempts) Fail(ctx context.Context, handler, lease string, f Failure) error {
	if n := max(len(f.Message), len(f.Type), len(f.Details)); n > MaxFailureBytes {
		return fmt.Errorf("%w: message, type and details of a failure have at most %d bytes each, got %d", ErrLimit, MaxFailureBytes, n)
	}
	out := run.StepFailure(abi.KindError, strings.ToValidUTF8(f.Message, "\uFFFD"), !f.Fatal)
	out.Err.Type = strings.ToValidUTF8(f.Type, "\uFFFD")
	if f.RetryAfter >= 0 {
		out.RetryAfterMs = f.RetryAfter.Milliseconds()
	}
	if len(f.Details) > 0 {
		if err := checkJSON("the details of a failure", f.Details); err != nil {
			return err
		}
		out.Err.Details = json.RawMessage(bytes.Clone(f.Details))
	}
	return s.handIn(ctx, handler, lease, out)
}

func (s *nsRef) handIn(ctx context.Context, handler, lease string, out run.StepOutcome) error {
	q, err := s.queue(ctx, handler)
	if err != nil {
		return err
	}
	return workerError(s.h.workers.HandIn(ctx, q, ownLease(lease), out))
}

// Release returns an attempt that the worker has not begun: the next worker gets it, as if it had not been
// taken. Errors are the same as those of Heartbeat.
func (s Attempts) Release(ctx context.Context, handler, lease string) error {
	q, err := s.queue(ctx, handler)
	if err != nil {
		return err
	}
	return workerError(s.h.workers.Release(q, ownLease(lease)))
}

// RemoteHandler describes a handler for workers.
type RemoteHandler struct {
	Name    string    `json:"name"`
	Waiting int       `json:"waiting"`             // attempts without a worker
	Oldest  time.Time `json:"oldest,omitzero"`     // when the longest waiting attempt began to wait
	Leased  int       `json:"leased"`              // attempts with a worker
	Asking  int       `json:"asking"`              // requests of workers that wait for an attempt
	Workers []string  `json:"workers" doc:"names"` // names of workers with attempts
}

// Handlers lists the handlers for workers by name, with their attempts in this namespace.
func (s Attempts) Handlers(ctx context.Context) ([]RemoteHandler, error) {
	ns, err := s.id(ctx, false)
	if err != nil {
		return nil, translate(err)
	}
	known := map[string]RemoteHandler{}
	for _, x := range s.h.workers.States(ns) {
		known[x.Handler] = RemoteHandler{Waiting: x.Waiting, Oldest: x.Oldest, Leased: x.Leased, Asking: x.Asking, Workers: x.Workers}
	}
	list := []RemoteHandler{}
	for _, name := range s.h.remoteNames() {
		x := known[name]
		x.Name = name
		x.Waiting += s.h.rt.WaitingOf(name, ns)
		if x.Workers == nil {
			x.Workers = []string{}
		}
		list = append(list, x)
	}
	return list, nil
}

func (h *Host) remoteNames() []string {
	var names []string
	for name := range h.remotes.Range {
		names = append(names, name.(string)) //nolint:forcetypeassert // it holds nothing else
	}
	slices.Sort(names)
	return names
}

// waitsFor returns the text that says what a run's attempt waits for, and how many attempts are ahead of it. If no attempt waits,
// it returns was, the reason in the run's state.
func (h *Host) waitsFor(key store.RunKey, status Status, was string) string {
	w, ok := h.rt.Waits(key)
	switch {
	case ok && w.Why == handler.WaitsForSlot && w.Slot.Step != "":
		return waitsForSlot(w)
	case status == Running:
		return h.waitsForWorker(key)
	case !ok:
		return was
	}
	text := was
	if name := abi.HandlerPrefix + w.Handler; w.Why == handler.WaitsUnhandled {
		return fmt.Sprintf("handler %q is not registered here", name)
	} else if !strings.HasPrefix(was, "step ") { // it was not registered then
		text = fmt.Sprintf("its step waits for its turn at handler %q", name)
	}
	switch w.Why {
	case handler.WaitsForHandler:
		text += fmt.Sprintf(": %d calls are in flight", w.Calls)
	case handler.WaitsForAll:
		text += fmt.Sprintf(": %d calls of all handlers are in flight", w.Calls)
	case handler.WaitsForNamespace:
		text += ": as many calls of its namespace are in flight as may be"
	case handler.WaitsForWorker:
		text += ": no worker has taken it"
	case handler.WaitsForTrial:
		text += ": its run has crashed the host, and goes on alone"
	case handler.WaitsForLimits:
		text += ", whose limits cannot be read"
	case handler.WaitsForStop:
		text += ": the host stops"
	}
	switch {
	case w.Before == 1:
		text += ", and 1 attempt waits before it"
	case w.Before >= handler.MaxBefore:
		text += fmt.Sprintf(", and %d or more attempts wait before it", w.Before)
	case w.Before > 1:
		text += fmt.Sprintf(", and %d attempts wait before it", w.Before)
	}
	return text
}

// waitsForSlot returns the reason of a run with an attempt that waits for a slot of its handler.
func waitsForSlot(w handler.Waiting) string {
	text := fmt.Sprintf("step %q waits for a slot of handler %q", w.Slot.Step, abi.HandlerPrefix+w.Handler)
	if w.Slot.Limit != "" {
		text += ", whose limit is " + w.Slot.Limit
	}
	switch {
	case w.Slot.Others == 1:
		text += "; 1 other attempt waits"
	case w.Slot.Others > 1:
		text += fmt.Sprintf("; %d other attempts wait", w.Slot.Others)
	}
	return text
}

// waitsForWorker returns the reason of a run with an attempt that waits for a worker; empty if there is none.
func (h *Host) waitsForWorker(key store.RunKey) string {
	step, handler, ok := h.workers.Waits(key)
	if !ok {
		return ""
	}
	return fmt.Sprintf("step %q waits for a worker of handler %q", step, abi.HandlerPrefix+handler)
}
