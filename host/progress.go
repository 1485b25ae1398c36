package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/shard"
	"github.com/wfhost/wfhost/store"
)

// MaxDetailsBytes bounds the details of a heartbeat, which may be recorded some hundred times for one step. They are
// for a position to continue from, not for results.
const MaxDetailsBytes = 4 << 10

// Heartbeat records the progress of a handler, so that the next attempt of its step can continue from there: StepInfo
// returns the details. They are encoded as JSON, of at most MaxDetailsBytes, and replace earlier details.
//
// The details are in memory when Heartbeat returns. They are written to the journal at least every ten seconds, or
// each 64th of the time since the first heartbeat if that is longer; also before a failure of the attempt is
// recorded, and when the host is closed. So a failed attempt loses nothing, and a crash of the host loses what came
// since the last record. About one call in ten seconds waits for the disk.
//
// ErrInvalid outside of a handler, and for details that are no JSON, ErrLimit for longer details, ErrLeaseLost if
// there is a later attempt by now: the handler should stop.
func Heartbeat(ctx context.Context, details any) error {
	c, ok := ctx.Value(attemptKey{}).(*attemptContext)
	if !ok {
		return fmt.Errorf("%w: a heartbeat outside of a handler", ErrInvalid)
	}
	if details == nil {
		details = json.RawMessage("null")
	}
	b, err := encoded("the details of a heartbeat", details)
	if err != nil {
		return err
	}
	return c.host.beat(c.attempt, b)
}

// newProgress returns the keeper of the details of heartbeats.
func (h *Host) newProgress() *handler.ProgressKeeper {
	return handler.NewProgressKeeper(h.cfg.Clock, func(a handler.Attempt, details []byte) error {
		_, err := h.rt.Runs.Change(context.Background(), a.Run, run.Amend{Make: handler.ProgressEntry(a, details), Beside: true})
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, shard.ErrNotOwned) {
			return nil // the run was deleted, or another host owns it
		}
		return err
	})
}

// beat records the details of an attempt's heartbeat.
func (h *Host) beat(a handler.Attempt, details []byte) error {
	if len(details) > MaxDetailsBytes {
		return tooMuch(details)
	}
	if !h.workers.progress.Record(a, details) {
		return fmt.Errorf("%w: there is a later attempt of the step", ErrLeaseLost)
	}
	return nil
}

func tooMuch(details []byte) error {
	return fmt.Errorf("%w: details of a heartbeat have at most %d bytes as JSON, got %d", ErrLimit, MaxDetailsBytes, len(details))
}

// performer is the broker of workers; it adds the latest details to attempts.
type performer struct {
	*handler.Broker
	progress *handler.ProgressKeeper
}

// Close closes both. It must be called while the runtime is open.
func (p *performer) Close() {
	p.progress.Close()
	p.Broker.Close()
}

// Perform adds the latest details to an attempt and passes it to the broker.
func (p *performer) Perform(ctx context.Context, a handler.Attempt, in []byte,
	told func() bool, taken func()) (run.StepOutcome, handler.Reply) {
	a.Details = p.progress.Latest(&a)
	out, reply := p.Broker.Perform(ctx, a, in, told, taken)
	if out.Err != nil {
		p.progress.Flush(a.IdempotencyKey)
	}
	return out, reply
}

// HeartbeatDetails is Heartbeat that also records the progress of the worker: JSON of at most MaxDetailsBytes. The
// next worker that gets the attempt, and the next attempt, find it in Attempt.Details. It is durable as the function
// Heartbeat says.
func (s Attempts) HeartbeatDetails(ctx context.Context, handler, lease string, d time.Duration, details json.RawMessage) (
	Lease, error,
) {
	if err := translate(abi.CheckJSON("the details of a heartbeat", details)); err != nil {
		return Lease{}, err
	}
	if len(details) > MaxDetailsBytes {
		return Lease{}, tooMuch(details)
	}
	l, err := s.Heartbeat(ctx, handler, lease, d)
	if err != nil {
		return l, err
	}
	q, err := s.queue(ctx, handler)
	if err != nil {
		return l, err
	}
	details = append(json.RawMessage(nil), details...)
	a, err := s.h.workers.Note(q, ownLease(lease), details)
	if err != nil {
		return l, workerError(err)
	}
	return l, s.h.beat(a, details)
}
