package run

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// What cancel answers, as the journal records it.
const (
	withdrawDone    = journal.WithdrawDone
	withdrawRunning = journal.WithdrawRunning
)

// maxRecoveries is how often a step whose attempts are used up is begun again because its host died in the
// middle of it. More of them mean that the step itself brings the host down.
const maxRecoveries = 3

// Attempt is one try of one step. It says what whoever performs it has to know; nothing of it changes.
type Attempt struct {
	Run     store.RunState // of which workflow, version, module, incarnation and iteration are looked at
	Started journal.Started
	Handle  int64
	Name    string
	Target  string    // handler; empty = body
	Number  uint32    // from 1
	Seq     store.Seq // of the call's entry
	Options abi.StepOptions
	Input   []byte
	Last    []byte           // error JSON of the attempt before
	StartMs int64            // when it began
	Until   store.Suspension // where the guest stands: a body's copy of the workflow replays up to there
	Entries []store.Entry    // of the journal, up to there
	// StartedMs is started_at of the run.
	StartedMs int64
	// Fork is the guest that waits for nothing but this body, and whose instance may execute it; nil if there is none.
	Fork *Lease

	// Performer is for whoever performs the attempt.
	Performer any

	told bool // the workflow has cancelled it
}

// Outcome is how an attempt ended: a result if Err is nil.
type Outcome struct {
	Data []byte
	Err  *abi.Error
	// RetryAfterMs is when the next attempt begins, as the failure says; -1 = by the step's options.
	RetryAfterMs int64
	// Abandoned says that it did not end: the host stops, or lacks the handler by now.
	Abandoned bool
}

// Failure returns the outcome of an attempt that failed.
func Failure(kind, message string, retryable bool) Outcome {
	return Outcome{Err: &abi.Error{Code: abi.StepFailed, Kind: kind, Message: message, Retryable: retryable},
		RetryAfterMs: -1}
}

// IdempotencyKey returns the key that all attempts of a step share: the first 26 characters of the base32 (RFC
// 4648) of SHA-256(incarnation ‖ iteration u32le ‖ name).
func IdempotencyKey(i store.Incarnation, iteration uint32, name string) string {
	b := binary.LittleEndian.AppendUint32(i[:], iteration)
	sum := sha256.Sum256(append(b, name...))
	return base32.StdEncoding.EncodeToString(sum[:])[:26]
}

// Key returns the idempotency key of the attempt's step.
func (a *Attempt) Key() string { return IdempotencyKey(a.Run.Incarnation, a.Run.Iteration, a.Name) }

// startAttempts makes the attempts that may begin now, appends what has to be recorded before they do, and has them
// started when that is durable. canFork reports whether the instance of the guest, which waits, can execute a body.
func (r *Run) startAttempts(now int64, canFork bool) error {
	if r.held() {
		return nil
	}
	r.waiting = ""
	first := len(r.fx.Start)
	for h := range r.journal.Handles {
		if h.Step == nil || r.attempts[h.ID] != nil || h.Step.RetryMs > now {
			continue
		}
		if name, ok := strings.CutPrefix(h.Target, abi.HandlerPrefix); ok && !r.handled(name) {
			r.waiting = fmt.Sprintf("handler %q is not registered here", h.Target)
			r.fx.Missing = append(r.fx.Missing, name)
			continue
		}
		a, err := r.prepare(now, h)
		if r.held() { // by this very attempt: its step is poison, or the journal has no room for its record
			return nil
		}
		if err != nil {
			return err
		}
		if a != nil {
			r.attempts[h.ID] = a
			r.fx.Start = append(r.fx.Start, a)
		}
	}
	// A step that has failed just now, since nobody knows the outcome of its only attempt, lets the guest go on instead.
	if canFork && len(r.fx.Start) == first+1 && len(r.attempts) == 1 && !r.journal.Deliverable() {
		r.fork(r.fx.Start[first])
	}
	return nil
}

// fork has the body that the guest waits for executed in the guest's own instance.
func (r *Run) fork(a *Attempt) {
	s, _ := r.journal.Suspension()
	deaf := s.Poll && !s.Events
	other := !s.Poll && len(s.Awaited) > 0
	for _, id := range s.Awaited {
		other = other && id != a.Handle
	}
	if a.Target == "" && !deaf && !other {
		a.Fork, r.guest = r.lease, guestForked
	}
}

// prepare makes one attempt; nil if there is to be none.
func (r *Run) prepare(now int64, h *journal.Handle) (*Attempt, error) {
	s := h.Step
	first := s.Attempt == 0
	recovery := s.InFlight || first && int(h.CallSeq) < r.restored && !s.Options.AtMostOnce
	if s.InFlight && s.Options.AtMostOnce {
		return nil, r.stepFailed(now, h, s.Attempt, 0, &abi.Error{Code: abi.StepFailed, Kind: abi.KindUnknown,
			Message: "the host stopped while the only attempt was running; nobody knows its outcome"})
	}
	number := s.Attempt + 1
	if first && recovery {
		number = 2
	}
	if recovery && s.Options.Attempts > 0 && int(number-s.Base) > s.Options.Attempts && s.Recoveries >= maxRecoveries {
		r.stick("poison: the host stopped again and again while step " + h.Name + " was running")
		return nil, nil
	}
	if number > 1 || s.Options.AtMostOnce {
		e := store.Entry{Kind: store.KindAttemptStarted, Handle: h.ID, Attempt: number}
		if recovery {
			e.Code = journal.StartedByRecovery
		}
		if _, err := r.append(now, e); err != nil {
			return nil, err
		}
	}
	entries := r.journal.Entries()
	where, _ := r.journal.Suspension()
	st := r.state
	st.Iteration, st.Version, st.Module = r.ident.iteration, r.ident.version, r.ident.module
	startedMs, _ := r.journal.StartedUnixMs()
	return &Attempt{Run: st, Started: r.journal.Started(), Handle: h.ID, Name: h.Name, Target: h.Target, Number: number,
		Seq: h.CallSeq, Options: s.Options, Input: entries[h.CallSeq].Input, Last: s.LastError, StartMs: now, Until: where,
		Entries: entries, StartedMs: startedMs}, nil
}

// begun reports whether an attempt of a step has begun whose outcome the guest has to learn, known or not: it may have
// had its effect. It is told that the workflow has cancelled it.
func (r *Run) begun(handle int64) bool {
	h := r.journal.Handle(handle)
	if h == nil || h.Step == nil {
		return false
	}
	if a := r.attempts[handle]; a != nil {
		if !a.told {
			a.told = true
			r.lease.tell = append(r.lease.tell, a)
		}
		return true
	}
	return h.Resolved
}

// Attempts returns the attempts that go on, in the order of their steps.
func (r *Run) Attempts() (list []*Attempt) {
	for _, handle := range slices.Sorted(maps.Keys(r.attempts)) {
		list = append(list, r.attempts[handle])
	}
	return list
}

// Has reports whether an attempt is one that goes on.
func (r *Run) Has(a *Attempt) bool { return r.attempts[a.Handle] == a }

// dropAttempts gives up what goes on.
func (r *Run) dropAttempts() {
	for _, handle := range slices.Sorted(maps.Keys(r.attempts)) {
		a := r.attempts[handle]
		delete(r.attempts, handle)
		if r.fx != nil {
			r.fx.Drop = append(r.fx.Drop, a)
		} else { // the guest has brought it about
			r.lease.drop = append(r.lease.drop, a)
		}
	}
	if r.guest == guestForked { // the body was all that its instance did
		r.guest, r.lease = guestNone, nil
	}
}

// attemptEnds takes the outcome of an attempt into the journal, unless it was given up.
func (r *Run) attemptEnds(now int64, a *Attempt, out Outcome) error {
	if r.attempts[a.Handle] != a {
		return nil
	}
	delete(r.attempts, a.Handle)
	if r.guest == guestForked && a.Fork == r.lease { // its instance has ended with it
		r.guest, r.lease = guestNone, nil
	}
	h := r.journal.Handle(a.Handle)
	if out.Abandoned || r.ended() || !h.Open() {
		return nil
	}
	if err := r.record(now, a, h, out); err != nil {
		r.fx.Unrecorded = fmt.Errorf("outcome of step %q: %w", a.Name, err)
	}
	return nil
}

// bodyEnds takes the outcome of a body that was executed in the guest's instance, and lets the guest go on there.
func (r *Run) bodyEnds(now int64, e BodyEnds) error {
	r.back(e.Lease)
	forked := r.guest == guestForked && e.Lease == r.lease
	if forked {
		r.guest = guestParked
	}
	if err := r.attemptEnds(now, e.Attempt, e.Outcome); err != nil {
		return err
	}
	switch {
	case !forked || r.lease != e.Lease: // it was left to the body, or the run has ended
		r.tell(e.Lease, OrderSuspend)
	case r.held() || !r.active || !r.journal.Deliverable():
		r.suspend()
	default:
		r.goOn()
	}
	return nil
}

// notForked has a body executed on a copy of the workflow.
func (r *Run) notForked(e NotForked) {
	if !r.Has(e.Attempt) {
		return
	}
	if r.guest == guestForked && r.lease == e.Lease {
		r.guest, r.lease = guestNone, nil
	}
	e.Attempt.Fork = nil
	r.fx.Start = append(r.fx.Start, e.Attempt)
}

func (r *Run) record(now int64, a *Attempt, h *journal.Handle, out Outcome) error {
	if out.Err == nil && len(out.Data) > abi.MaxPayloadBytes {
		out = Outcome{Err: &abi.Error{Code: abi.TooLarge, Kind: abi.KindError, Message: fmt.Sprintf(
			"result of step %q has %d bytes, the limit is %d", a.Name, len(out.Data), abi.MaxPayloadBytes)}}
	}
	if out.Err == nil {
		_, err := r.append(now, store.Entry{Kind: store.KindStepResult, Handle: a.Handle, Attempt: a.Number,
			Data: out.Data, StartUnixMs: a.StartMs})
		return err
	}
	failed := *out.Err
	if due, ok := a.retry(h.Step, out, now); ok {
		failed.Name, failed.Attempts = a.Name, int(h.Step.Failures)+1
		data, err := json.Marshal(&failed)
		if err != nil {
			return err
		}
		_, err = r.append(now, store.Entry{Kind: store.KindAttemptFailed, Handle: a.Handle, Attempt: a.Number, Data: data,
			StartUnixMs: a.StartMs, DueUnixMs: due, HasDue: true})
		return err
	}
	return r.stepFailed(now, h, a.Number, a.StartMs, &failed)
}

// retry returns when the next attempt is to begin, false if there is none.
func (a *Attempt) retry(s *journal.Step, out Outcome, now int64) (int64, bool) {
	o := s.Options
	if !out.Err.Retryable || a.told || o.Attempts > 0 && int(a.Number-s.Base) >= o.Attempts ||
		o.AtMostOnce && out.Err.Kind != abi.KindError {
		return 0, false
	}
	delay := o.RetryDelayMs(int(s.Failures)+1, a.jitter())
	if out.RetryAfterMs >= 0 {
		delay = out.RetryAfterMs
	}
	due, err := abi.AddMs(now, delay)
	if err != nil || o.MaxElapsedMs > 0 && due > s.FirstMs+o.MaxElapsedMs {
		return 0, false
	}
	return max(due, 1), true
}

// jitter returns a number in [0, 1) that differs between runs, steps and attempts.
func (a *Attempt) jitter() float64 {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint32([]byte(a.Key()), a.Number))
	return float64(binary.LittleEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// stepFailed resolves a step as failed, with the history of its attempts.
func (r *Run) stepFailed(now int64, h *journal.Handle, number uint32, startMs int64, e *abi.Error) error {
	e.Name, e.Attempts, e.Retryable = h.Name, int(h.Step.Failures)+1, false
	if history := r.history(h.ID); len(history) > 0 {
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
	_, err = r.append(now, entry)
	return err
}

// Tried is one failed attempt in the history of a step.
type Tried struct {
	Attempt     uint32          `json:"attempt"`
	StartUnixMs int64           `json:"start_ms"`
	DurationMs  int64           `json:"duration_ms"`
	Error       json.RawMessage `json:"error"`
}

func (r *Run) history(handle int64) (list []Tried) {
	for _, e := range r.journal.Entries() {
		if e.Kind == store.KindAttemptFailed && e.Handle == handle {
			list = append(list, Tried{Attempt: e.Attempt, StartUnixMs: e.StartUnixMs,
				DurationMs: e.UnixMs - e.StartUnixMs, Error: e.Data})
		}
	}
	return list
}
