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
	"github.com/wfhost/wfhost/host/internal/remote"
	"github.com/wfhost/wfhost/host/internal/step"
	"github.com/wfhost/wfhost/store"
)

// Limits of workers.
const (
	// MaxBatch is how many attempts a worker takes at once: more would wait in one worker while others have nothing to do.
	MaxBatch = 100
	// MaxTakeWait is how long a worker waits for an attempt at most: proxies cut requests that take longer.
	MaxTakeWait = time.Minute
	// DefaultLease is the lease of a worker that does not say how long, and MinLease and MaxLease bound it: a shorter
	// one is lost when a machine is busy, and a dead worker holds up its attempts for a longer one.
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

// HandleRemote says that the steps of a handler are performed by workers, which take its attempts with TakeAttempts.
// Until one comes, attempts wait, for as long as it takes: the timeout of a step begins when a worker takes it.
// Registering a name again with HandleStep, or here, replaces the handler. Handlers are registered before Run.
// ErrInvalid for a name that no step could call.
func (h *Host) HandleRemote(name string) error {
	if name == "" {
		return fmt.Errorf("%w: the name of a handler is empty", ErrInvalid)
	}
	if err := abi.CheckHandler(abi.HandlerPrefix + name); err != nil {
		return translate(err)
	}
	h.remotes.Store(name, true)
	h.handlers.add(func(other *Host) { _ = other.HandleRemote(name) }) // the name was taken here
	h.rt.HandleRemote(name, h.workers)
	return nil
}

// TakeOptions say what a worker takes. The zero value is one attempt, without waiting for it.
type TakeOptions struct {
	Worker string        // its name, for people: at most MaxWorkerNameBytes
	Max    int           // how many attempts, at most MaxBatch; default 1
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
	Lease    string // names the attempt to Heartbeat, CompleteAttempt, FailAttempt and ReleaseAttempt
	Delivery int    // how often this attempt was taken, this time included: more than 1 after a worker was lost
	// Until is when the lease ends if the worker sends no heartbeat.
	Until time.Time
	// Deadline is when the attempt is over, by the step's timeout, whatever the worker says.
	Deadline time.Time
}

// queue returns the queue of a handler, ErrNotFound if it is not for workers.
func (s *scope) queue(ctx context.Context, handler string) (remote.Queue, error) {
	if _, ok := s.h.remotes.Load(handler); !ok {
		return remote.Queue{}, fmt.Errorf("%w: handler %.300q is not for workers: name it with `wfhost serve --worker-handler`, or "+
			"Host.HandleRemote", ErrNotFound, handler)
	}
	ns, err := s.id(ctx, false)
	return remote.Queue{Namespace: ns, Handler: handler}, translate(err)
}

// TakeAttempts takes attempts of a handler that HandleRemote has named: those of this namespace, in the order in which they
// began to wait. The worker has each of them until its lease ends, and sends heartbeats to keep it for longer. If it does
// not, another worker gets the attempt, up to five times; then the attempt has failed. An attempt with AtMostOnce must be
// begun by a heartbeat, and what it does only happens when that was answered without an error; from there on, the end of its
// lease is the end of the step.
//
// It returns none if there is none for as long as o.Wait, ErrNotFound if the handler is not for workers, ErrInvalid for
// options that cannot be, and ErrClosed if the host is about to stop.
func (s *scope) TakeAttempts(ctx context.Context, handler string, o TakeOptions) ([]Attempt, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	q, err := s.queue(ctx, handler)
	if err != nil {
		return nil, err
	}
	offers, err := s.h.workers.Take(ctx, q, remote.Ask{Worker: o.Worker, Max: o.Max, Wait: o.Wait, Lease: o.Lease})
	list := []Attempt{}
	for _, x := range offers {
		list = append(list, Attempt{Step: s.h.stepOf(&x.Attempt), Handler: handler, Input: bytes.Clone(x.Input), Lease: x.Lease,
			Delivery: x.Delivery, Until: x.Until, Deadline: x.Deadline})
	}
	return list, workerError(err)
}

// workerError translates what the broker says.
func workerError(err error) error {
	switch {
	case errors.Is(err, remote.ErrLost):
		return &joined{err, ErrLeaseLost}
	case errors.Is(err, remote.ErrNotBegun):
		return &joined{err, ErrConflict}
	case errors.Is(err, remote.ErrDraining):
		return &joined{err, ErrClosed}
	}
	return translate(err)
}

// Lease is how long a worker has an attempt.
type Lease struct {
	Until time.Time `json:"until"` // never after the attempt's deadline
	// Cancelled says that the workflow has cancelled the step: the worker should come to an end, and hand in what it
	// has done. It is not tried again.
	Cancelled bool `json:"cancelled"`
}

// Heartbeat says that a worker has begun an attempt and is at work: its lease ends when d has passed from now; 0 is
// DefaultLease. ErrLeaseLost if the worker does not have it any more: it should stop.
func (s *scope) Heartbeat(ctx context.Context, handler, lease string, d time.Duration) (Lease, error) {
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
	until, cancelled, err := s.h.workers.Extend(q, lease, d)
	return Lease{Until: until, Cancelled: cancelled}, workerError(err)
}

// CompleteAttempt hands in the result of an attempt: JSON of at most abi.MaxPayloadBytes, or nothing. It is durable when
// CompleteAttempt returns. ErrInvalid if it is no JSON. ErrLeaseLost if nobody waits for it any more: another worker may have
// done it. ErrConflict for an attempt with AtMostOnce that was not begun by a heartbeat. If ctx ends first, nobody knows.
func (s *scope) CompleteAttempt(ctx context.Context, handler, lease string, result []byte) error {
	if len(result) > abi.MaxPayloadBytes {
		return fmt.Errorf("%w: a result has at most %d bytes, got %d", ErrLimit, abi.MaxPayloadBytes, len(result))
	}
	if err := checkJSON(fmt.Sprintf("the result of handler %q", handler), result); err != nil {
		return err
	}
	return s.handIn(ctx, handler, lease, step.Outcome{Data: bytes.Clone(result)})
}

// Failure is how an attempt has failed.
type Failure struct {
	Message string // at most MaxFailureBytes
	Type    string // of the error, for the workflow; may be empty
	Fatal   bool   // it must not be retried
	// RetryAfter is the delay after which it is to be retried, in place of the step's backoff; negative: by that.
	RetryAfter time.Duration
	Details    json.RawMessage // for the workflow; none, or JSON of at most MaxFailureBytes
}

// FailAttempt hands in that an attempt has failed. The options of the step say whether it is retried. Durability and
// errors are as for CompleteAttempt.
func (s *scope) FailAttempt(ctx context.Context, handler, lease string, f Failure) error {
	if n := max(len(f.Message), len(f.Type), len(f.Details)); n > MaxFailureBytes {
		return fmt.Errorf("%w: message, type and details of a failure have at most %d bytes each, got %d", ErrLimit, MaxFailureBytes, n)
	}
	out := step.Failure(abi.KindError, strings.ToValidUTF8(f.Message, "\uFFFD"), !f.Fatal)
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

func (s *scope) handIn(ctx context.Context, handler, lease string, out step.Outcome) error {
	q, err := s.queue(ctx, handler)
	if err != nil {
		return err
	}
	return workerError(s.h.workers.HandIn(ctx, q, lease, out))
}

// ReleaseAttempt returns an attempt that the worker has not begun: the next worker gets it, as if it had not been taken.
// Errors are those of Heartbeat.
func (s *scope) ReleaseAttempt(ctx context.Context, handler, lease string) error {
	q, err := s.queue(ctx, handler)
	if err != nil {
		return err
	}
	return workerError(s.h.workers.Release(q, lease))
}

// RemoteHandler is what is known of a handler for workers.
type RemoteHandler struct {
	Name    string    `json:"name"`
	Waiting int       `json:"waiting"`             // attempts that no worker has
	Oldest  time.Time `json:"oldest,omitzero"`     // since when the first of them waits
	Leased  int       `json:"leased"`              // attempts that workers have
	Asking  int       `json:"asking"`              // requests of workers that wait for an attempt
	Workers []string  `json:"workers" doc:"names"` // of workers that have attempts
}

// RemoteHandlers lists the handlers for workers by name, with their attempts in this namespace.
func (s *scope) RemoteHandlers(ctx context.Context) ([]RemoteHandler, error) {
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

// waitsForWorker returns the reason of a run of which an attempt waits for a worker, empty if none does.
func (h *Host) waitsForWorker(key store.RunKey) string {
	step, handler, ok := h.workers.Waits(key)
	if !ok {
		return ""
	}
	return fmt.Sprintf("step %q waits for a worker of handler %q", step, abi.HandlerPrefix+handler)
}
