package sched

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// maxRecoveries is how often a step whose attempts are used up is begun again because its host died in the
// middle of it. More of them mean that the step itself brings the host down.
const maxRecoveries = 3

// errTold is the cause of a cancelled attempt whose outcome the guest still waits for.
var errTold = context.Canceled

// errStepTimeout is the cause of an attempt that ran over its timeout.
var errStepTimeout = errors.New("the attempt ran over the step's timeout")

// attempt is one try of one step, in memory while it goes on.
type attempt struct {
	o       *owner
	handle  int64
	name    string
	target  string // handler; empty = body
	number  uint32
	seq     store.Seq
	options abi.StepOptions
	input   []byte
	last    []byte // error JSON of the attempt before
	startMs int64
	run     store.RunState // of which only what never changes is looked at
	started journal.Started
	until   store.Suspension // where the guest stood: a body's copy replays up to there

	ctx    context.Context
	cancel context.CancelCauseFunc
	told   atomic.Bool
}

// outcome is how an attempt ended.
type outcome struct {
	ok           bool
	data         []byte
	err          *abi.Error
	retryAfterMs int64 // -1 = by the step's options
	abandoned    bool  // nobody is interested any more
}

func failure(kind, message string, retryable bool) outcome {
	return outcome{err: &abi.Error{Code: abi.StepFailed, Kind: kind, Message: message, Retryable: retryable},
		retryAfterMs: -1}
}

// IdempotencyKey gives the key that all attempts of a step share: the first 26 characters of the base32 (RFC
// 4648) of SHA-256(incarnation ‖ iteration u32le ‖ name).
func IdempotencyKey(i store.Incarnation, iteration uint32, name string) string {
	b := binary.LittleEndian.AppendUint32(i[:], iteration)
	sum := sha256.Sum256(append(b, name...))
	return base32.StdEncoding.EncodeToString(sum[:])[:26]
}

// prepareAttempts makes the attempts that may begin now, and appends what has to be recorded before they do.
// They are launched when the commit of it is durable. The owner is locked.
func (o *owner) prepareAttempts() ([]*attempt, error) {
	if o.journal.Ended() != store.KindInvalid || o.status != 0 {
		return nil, nil
	}
	var starts []*attempt
	o.waiting = ""
	for h := range o.journal.Handles {
		if h.Step == nil || o.attempts[h.ID] != nil || h.Step.RetryMs > o.s.nowMs() {
			continue
		}
		if name, ok := strings.CutPrefix(h.Target, abi.HandlerPrefix); ok && o.s.handler(name) == nil {
			o.waiting = "handler missing: " + h.Target
			o.s.miss(name, o.key)
			continue
		}
		a, err := o.prepare(h)
		if o.journal.Ended() != store.KindInvalid { // by this attempt, for whose record its journal has no room
			for _, a := range starts {
				delete(o.attempts, a.handle)
			}
			return nil, nil
		}
		if err != nil {
			return starts, err
		}
		if a != nil {
			o.attempts[h.ID] = a
			starts = append(starts, a)
		}
		if o.status != 0 {
			return nil, nil
		}
	}
	return starts, nil
}

// prepare makes one attempt; nil if there is to be none.
func (o *owner) prepare(h *journal.Handle) (*attempt, error) {
	s := h.Step
	first := s.Attempt == 0
	recovery := s.InFlight || first && int(h.CallSeq) < o.restored && !s.Options.AtMostOnce
	if s.InFlight && s.Options.AtMostOnce {
		return nil, o.stepFailed(h, s.Attempt, 0, &abi.Error{Code: abi.StepFailed, Kind: abi.KindUnknown,
			Message: "the host stopped while the only attempt was running; nobody knows its outcome"})
	}
	number := s.Attempt + 1
	if first && recovery {
		number = 2
	}
	if recovery && s.Options.Attempts > 0 && int(number-s.Base) > s.Options.Attempts && s.Recoveries >= maxRecoveries {
		o.stick("poison: the host stopped " + "again and again while step " + h.Name + " was running")
		return nil, nil
	}
	if number > 1 || s.Options.AtMostOnce {
		e := store.Entry{Kind: store.KindAttemptStarted, Handle: h.ID, Attempt: number}
		if recovery {
			e.Code = journal.StartedByRecovery
		}
		if _, err := o.append(e); err != nil {
			return nil, err
		}
	}
	call := &o.journal.Entries()[h.CallSeq]
	where, _ := o.journal.Suspension()
	a := &attempt{o: o, handle: h.ID, name: h.Name, target: h.Target, number: number, seq: h.CallSeq,
		options: s.Options, input: call.Input, last: s.LastError, startMs: o.s.nowMs(), until: where, run: o.state,
		started: o.journal.Started()}
	ctx, cancel := context.WithCancelCause(o.s.ctx)
	a.ctx, a.cancel = ctx, func(cause error) {
		if errors.Is(cause, errTold) {
			a.told.Store(true)
		}
		cancel(cause)
	}
	return a, nil
}

// launch starts attempts.
func (o *owner) launch(starts []*attempt) {
	for _, a := range starts {
		o.s.begin()
		o.s.wg.Go(func() {
			defer o.s.done()
			held := o.s.acquire(o.key)
			defer o.s.release(held)
			a.end(a.perform())
		})
	}
}

// end takes the outcome of an attempt into the journal and lets the run go on.
func (a *attempt) end(out outcome) {
	o := a.o
	o.mu.Lock()
	goOn := a.settle(out)
	o.mu.Unlock()
	if goOn {
		o.advance(false)
	}
}

// settle takes the outcome of an attempt into the journal. It answers whether somebody has to look at the run. The
// owner is locked.
func (a *attempt) settle(out outcome) (look bool) {
	a.cancel(nil)
	o := a.o
	if o.attempts[a.handle] != a { // the run has continued as new
		return false
	}
	delete(o.attempts, a.handle)
	h := o.journal.Handle(a.handle)
	if o.dead != nil || out.abandoned || !h.Open() || o.journal.Ended() != store.KindInvalid {
		o.changedLocked()
		// The step may be open again, by a retry of the run that came before this end.
		return o.dead == nil && o.journal.Ended() == store.KindInvalid && o.s.ctx.Err() == nil
	}
	if err := a.record(h, out); err != nil {
		o.s.cfg.Logger.Error("outcome of a step cannot be recorded", "run", o.key.ID, "step", a.name, "cause", err)
	}
	o.changedLocked()
	return true
}

func (a *attempt) record(h *journal.Handle, out outcome) error {
	o := a.o
	if out.ok && len(out.data) > abi.MaxPayloadBytes {
		out = outcome{err: &abi.Error{Code: abi.TooLarge, Kind: abi.KindError, Message: tooLarge(a.name, len(out.data))}}
	}
	if out.ok {
		_, err := o.append(store.Entry{Kind: store.KindStepResult, Handle: a.handle, Attempt: a.number,
			Data: out.data, StartUnixMs: a.startMs})
		return err
	}
	now := o.s.nowMs()
	if due, ok := a.retry(h.Step, out, now); ok {
		out.err.Name, out.err.Attempts = a.name, int(h.Step.Failures)+1
		data, err := json.Marshal(out.err)
		if err != nil {
			return err
		}
		_, err = o.append(store.Entry{Kind: store.KindAttemptFailed, Handle: a.handle, Attempt: a.number, Data: data,
			StartUnixMs: a.startMs, DueUnixMs: due, HasDue: true})
		return err
	}
	return o.stepFailed(h, a.number, a.startMs, out.err)
}

// retry says when the next attempt is to begin, false if there is none.
func (a *attempt) retry(s *journal.Step, out outcome, now int64) (int64, bool) {
	o := s.Options
	if !out.err.Retryable || a.told.Load() || o.Attempts > 0 && int(a.number-s.Base) >= o.Attempts ||
		o.AtMostOnce && out.err.Kind != abi.KindError {
		return 0, false
	}
	delay := o.RetryDelayMs(int(s.Failures)+1, jitter(a))
	if out.retryAfterMs >= 0 {
		delay = out.retryAfterMs
	}
	due, err := abi.AddMs(now, delay)
	if err != nil || o.MaxElapsedMs > 0 && due > s.FirstMs+o.MaxElapsedMs {
		return 0, false
	}
	return max(due, 1), true
}

// jitter gives a number in [0, 1) that differs between runs, steps and attempts.
func jitter(a *attempt) float64 {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint32([]byte(a.key()), a.number))
	return float64(binary.LittleEndian.Uint64(sum[:])>>11) / (1 << 53)
}

func (a *attempt) key() string {
	return IdempotencyKey(a.run.Incarnation, a.run.Iteration, a.name)
}

// stepFailed resolves a step as failed, with the history of its attempts. The owner is locked.
func (o *owner) stepFailed(h *journal.Handle, number uint32, startMs int64, e *abi.Error) error {
	e.Name, e.Attempts, e.Retryable = h.Name, int(h.Step.Failures)+1, false
	if history := o.history(h.ID); len(history) > 0 {
		e.Details = map[string]any{"history": history, "details": e.Details}
	}
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	entry := store.Entry{Kind: store.KindStepFailure, Handle: h.ID, Attempt: number, Data: data, StartUnixMs: startMs}
	if e.Code != abi.StepFailed {
		entry.Code = int32(e.Code)
	}
	_, err = o.append(entry)
	return err
}

// Tried is one failed attempt in the history of a step.
type Tried struct {
	Attempt     uint32          `json:"attempt"`
	StartUnixMs int64           `json:"start_ms"`
	DurationMs  int64           `json:"duration_ms"`
	Error       json.RawMessage `json:"error"`
}

func (o *owner) history(handle int64) (list []Tried) {
	for _, e := range o.journal.Entries() {
		if e.Kind == store.KindAttemptFailed && e.Handle == handle {
			list = append(list, Tried{Attempt: e.Attempt, StartUnixMs: e.StartUnixMs,
				DurationMs: e.UnixMs - e.StartUnixMs, Error: e.Data})
		}
	}
	return list
}
