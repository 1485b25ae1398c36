package host

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/request"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// RequestInfo is the argument of Events.Request.
type RequestInfo struct {
	ID        int64  // of the request
	Kind      string // start, signal or cancel
	Namespace string // empty in the default namespace
	RunID     string
	Name      string        // workflow of a start, name of a signal
	Attempts  int           // this one included
	Err       error         // nil if it is done
	Again     time.Duration // until the next attempt; 0 = it is done, or refused
}

// performRequests performs the requests that other programs put into the store, until ctx is done.
func (h *Host) performRequests(ctx context.Context) {
	s, ok := h.below.(store.Requesting)
	if !ok {
		return
	}
	said := ""
	request.Perform(ctx, request.Config{Store: s, Owned: h.ownedOrAll, Do: h.doRequest, Report: h.reportRequest,
		Failed: func(err error) {
			if h.Failure() == nil && err.Error() != said {
				said = err.Error()
				h.cfg.Logger.Warn("requests in the database cannot be taken at the moment", "cause", err)
			}
		}})
}

// ownedOrAll returns the partitions that this host owns, nil if these are all.
func (h *Host) ownedOrAll() []store.PartitionID {
	owned := h.rt.Partitions.Owned()
	switch len(owned) {
	case store.Partitions:
		return nil
	case 0:
		return []store.PartitionID{}
	}
	return owned
}

// reportRequest logs a refused request, and calls Events.Request.
func (h *Host) reportRequest(r *store.Request, err error, again time.Duration) {
	ns := h.nameOf(r.Run.Namespace)
	if err != nil && again == 0 && h.notices != nil {
		about := []any{"request", r.ID, "kind", r.Kind.String(), "run", r.Run.ID}
		if r.Name != "" {
			about = append(about, "name", r.Name)
		}
		if ns != "" {
			about = append(about, "namespace", ns)
		}
		text, _ := json.Marshal(abi.Error{Message: err.Error()}) // plain texts
		h.notices.warn(h.cfg.Clock.Now(), notice{"request of a transaction was refused", about, text})
	}
	if f := h.cfg.Events.Request; f != nil {
		f(RequestInfo{ID: r.ID, Kind: r.Kind.String(), Namespace: ns, RunID: r.Run.ID, Name: r.Name, Attempts: r.Attempts + 1,
			Err: err, Again: again})
	}
}

// doRequest performs one request.
func (h *Host) doRequest(ctx context.Context, r *store.Request) (request.Verdict, error) {
	s := &nsRef{h: h, name: h.nameOf(r.Run.Namespace)}
	s.number.Store(uint64(r.Run.Namespace) + 1)
	var err error
	switch r.Kind {
	case store.RequestStart:
		err = s.startRequested(ctx, r)
	case store.RequestSignal:
		err = s.signalRequested(ctx, r)
	case store.RequestCancel:
		_, err = h.rt.Runs.Change(ctx, r.Run, run.Cancel{})
		if err = translate(err); errors.Is(err, ErrTerminal) { // it has ended by itself, or by this request
			err = nil
		}
	default:
		err = fmt.Errorf("%w: the kind of request %d: a newer release has asked for it", ErrVersion, r.Kind)
	}
	return verdict(ctx, err), err
}

// verdict says what becomes of a request after an error.
func verdict(ctx context.Context, err error) request.Verdict {
	switch {
	case err == nil:
		return request.Done
	case ctx.Err() != nil, errors.Is(err, ErrFenced), errors.Is(err, ErrClosed), errors.Is(err, ErrStoreFailed):
		return request.Left
	case errors.Is(err, ErrBusy), errors.Is(err, ErrUnavailable):
		return request.Again
	case isNotFound(err):
		return request.Missing
	case errors.Is(err, ErrConflict), errors.Is(err, ErrTerminal), errors.Is(err, ErrInvalid), errors.Is(err, ErrLimit):
		return request.Refused
	}
	return request.Again // what may be wrong with the host is no fault of the request
}

// conflicts are the policies of requests.
var conflicts = map[string]ConflictPolicy{"": ConflictExisting, "existing": ConflictExisting, "fail": ConflictFail,
	"terminate": ConflictTerminate, "replace": ConflictReplace}

// startRequested starts the run of a request, unless the request has started it before.
func (s *nsRef) startRequested(ctx context.Context, r *store.Request) error {
	st, err := s.h.store.State(ctx, r.Run)
	switch {
	case err == nil && st.Incarnation == r.Token:
		return nil
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return translate(err)
	}
	policy, known := conflicts[r.OnConflict]
	if !known {
		return fmt.Errorf("%w: on_conflict %q", ErrInvalid, r.OnConflict)
	}
	o := start{incarnation: r.Token, timeoutMs: r.TimeoutMs}
	opts := []StartOption{WithRunID(r.Run.ID), WithVersion(r.Version), WithAttributes(r.Attributes), OnConflict(policy),
		WithPriority(r.Priority), WithTraceParent(r.TraceParent)}
	if r.Memo != "" {
		opts = append(opts, WithMemo(json.RawMessage(r.Memo)))
	}
	if r.AtUnixMs > 0 {
		opts = append(opts, WithStartAt(abi.TimeOf(r.AtUnixMs)))
	}
	for _, set := range opts {
		set(&o)
	}
	_, err = s.begin(ctx, r.Name, r.Data, &o)
	return err
}

// signalRequested sends the signal of a request. Its token is the idempotency key unless the request has another one, so the run
// takes the signal once.
func (s *nsRef) signalRequested(ctx context.Context, r *store.Request) error {
	key := r.IdempotencyKey
	if key == "" {
		key = "request-" + hex.EncodeToString(r.Token[:])
	}
	n, err := newRawSignal(r.Name, r.Data, []SignalOption{WithIdempotencyKey(key)})
	if err != nil {
		return err
	}
	return s.signal(ctx, r.Run.ID, n)
}
