package host

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/store"
)

// Status is the state of a run. Its method Terminal reports whether the run has ended, and String returns the name,
// such as "sleeping".
type Status = store.Status

// The statuses.
const (
	Queued     = store.Queued     // waits for an activation
	Running    = store.Running    // an activation or an attempt of a step is in flight
	Sleeping   = store.Sleeping   // waits for timers only
	Waiting    = store.Waiting    // waits for a signal, a step or the like; Run.Reason says for what
	Paused     = store.Paused     // paused by an operator
	Stuck      = store.Stuck      // needs a person; Run.Reason says why
	Completed  = store.Completed  // ended with a result
	Failed     = store.Failed     // ended with an error
	Cancelled  = store.Cancelled  // ended by a cancel
	Terminated = store.Terminated // ended by a terminate
)

// Run describes a run. Instants that do not apply are zero.
type Run struct {
	// Namespace is empty in the default namespace.
	Namespace string `json:"namespace,omitempty"`

	ID       string    `json:"id"`
	Workflow string    `json:"workflow"`
	Version  uint32    `json:"version"`
	Module   string    `json:"module"` // SHA-256 in hexadecimal
	Status   Status    `json:"status"`
	Reason   string    `json:"reason,omitempty"` // while waiting or stuck
	Created  time.Time `json:"created"`
	Started  time.Time `json:"started,omitzero"` // when its workflow began to run, in its first iteration
	Updated  time.Time `json:"updated"`
	Ended    time.Time `json:"ended,omitzero"`
	Wake     time.Time `json:"wake,omitzero"` // when it wakes by itself
	Entries  uint64    `json:"entries"`       // the length of its journal
	// Existed is true if a Start returns a run that existed before.
	Existed bool `json:"existed,omitempty"`
	// Iteration is how often the run has continued as new.
	Iteration uint32 `json:"iteration,omitempty"`
	// FirstIteration is the first iteration whose journal is kept: see Retention.KeepIterations.
	FirstIteration uint32            `json:"first_iteration,omitempty"`
	Attributes     map[string]string `json:"attributes,omitempty"`
	Memo           json.RawMessage   `json:"memo,omitempty"`   // set at the start, for people to see
	Parent         string            `json:"parent,omitempty"` // id of the run that started it
	Output         uint64            `json:"output,omitempty"` // chunks of output
	// Schedule is the id of the schedule that started the run, and Nominal the instant that the run was started for.
	Schedule string    `json:"schedule,omitempty"`
	Nominal  time.Time `json:"nominal,omitzero"`
	// Aside says why the run makes no progress here: "copy" if it was imported for inspection, "moved" if it was
	// exported to continue elsewhere; otherwise empty.
	Aside string `json:"aside,omitempty"`
	// Imported is when the run was imported from another installation; zero if it was started here.
	Imported time.Time `json:"imported,omitzero"`
	// QueuePosition is the position of a waiting run in the queue for a slot. Only Get sets it.
	QueuePosition *QueuePosition `json:"place,omitempty"`
	// Throttled is until when further starts with the same key return this run instead of a new one: see StartWindow.
	// Only such a start sets it.
	Throttled time.Time `json:"throttled,omitzero"`
	// Error is the message of a failed run. Lists show 300 characters of it, and none for runs that failed under a
	// release before; Get returns all of it, and ResultRaw all that was recorded.
	Error string `json:"error,omitempty"`
	// Failure is the recorded failure: code, message, the step with its attempts, and the cause. Only Get sets it,
	// for a failed run whose failure has that form.
	Failure *abi.Error `json:"failure,omitempty"`
	// Help is advice for a run that is stuck because its workflow differs from its journal.
	Help string `json:"help,omitempty"`
	// TraceID is the id of the run's trace in W3C Trace Context, 32 hexadecimal digits. Only Get sets it.
	TraceID string `json:"trace_id,omitempty"`

	incarnation store.Incarnation
	traceParent string
}

func (h *Host) runOf(s store.RunState) Run {
	at := func(ms int64) time.Time {
		if ms == 0 {
			return time.Time{}
		}
		return abi.TimeOf(ms)
	}
	r := Run{Namespace: h.nameOf(s.Run.Namespace), ID: s.Run.ID, Workflow: s.Workflow, Version: s.Version,
		Module: s.Module.String(), Status: s.Status,
		Reason: s.Reason, Created: at(s.CreatedUnixMs), Started: at(s.StartedUnixMs), Updated: at(s.UpdatedUnixMs),
		Entries:   uint64(s.Length),
		Iteration: s.Iteration, FirstIteration: s.Kept, Parent: s.Parent, Output: s.Output, Schedule: s.Schedule,
		Aside: s.Aside.String(), Imported: at(s.ImportUnixMs), incarnation: s.Incarnation, traceParent: s.TraceParent}
	if s.Status.Terminal() { // a retried run has an earlier end, but may be live again
		r.Ended = at(s.EndedUnixMs)
	}
	if r.Schedule != "" {
		r.Nominal = abi.TimeOf(s.NominalUnixMs)
	}
	for _, a := range s.Attributes {
		if r.Attributes == nil {
			r.Attributes = map[string]string{}
		}
		r.Attributes[a.Key] = a.Value
	}
	if s.Status == Failed {
		r.Error, r.Reason = s.Reason, ""
	}
	if s.Memo != "" {
		r.Memo = json.RawMessage(s.Memo)
	}
	if s.Status == Stuck && strings.HasPrefix(s.Reason, replay.Differs) {
		r.Help = fmt.Sprintf("check a mended module with `wfhost check FOLDER --workflow %s`, then let the run go on under it with "+
			"`wfhost upload FOLDER --workflow %s --migrate`", s.Workflow, s.Workflow)
	}
	if s.WakeUnixMs != store.NoWake && (s.Status == Sleeping || s.Status == Waiting || s.Status == Queued && s.Faults > 0) {
		r.Wake = abi.TimeOf(s.WakeUnixMs)
	}
	return r
}

// newRunID returns a UUID of version 7 (RFC 9562, 5.7): 48 bits of Unix milliseconds, then random bits.
func newRunID(now time.Time) string {
	var u [16]byte
	secureRandom(u[:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(now.UnixMilli()))
	copy(u[:6], ms[2:])
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	t := hex.EncodeToString(u[:])
	return t[:8] + "-" + t[8:12] + "-" + t[12:16] + "-" + t[16:20] + "-" + t[20:]
}

// Get returns the current state of a run.
func (s *scope) Get(ctx context.Context, id string) (Run, error) { return s.get(ctx, id) }

func (s *nsRef) get(ctx context.Context, id string) (Run, error) {
	key, err := s.key(ctx, id)
	if err != nil {
		return Run{}, translate(err)
	}
	st, err := s.h.rt.Runs.State(ctx, key)
	r := s.h.runOf(st)
	if err == nil && (r.Status == Running || r.Status == Waiting) {
		r.Reason = s.h.waitsFor(key, r.Status, r.Reason)
	}
	if cause := s.h.rt.Runs.Unreadable(key); err == nil && cause != "" && !r.Status.Terminal() {
		r.Reason = cause
	}
	if err == nil {
		r.TraceID = r.Trace().TraceID()
		err = s.setQueuePosition(ctx, &st, &r)
	}
	if err == nil && r.Status == Failed && r.Entries > 0 {
		var message string
		message, r.Failure = s.failure(ctx, id, store.Seq(r.Entries-1))
		r.Error = cmp.Or(message, r.Error)
	}
	return r, translate(err)
}

// failure reads the entry that ended a failed run. It returns the message and, if the entry has that form, the whole
// failure; "" and nil if the entry cannot be read or is no longer a failure.
func (s *nsRef) failure(ctx context.Context, id string, end store.Seq) (string, *abi.Error) {
	for e, err := range s.journal(ctx, id, nil, end) {
		if err != nil || e.Kind != store.KindFailed {
			break
		}
		if f, ok := failureOf(e.Data); ok && f.Message != "" {
			return f.Message, f
		}
		var plain struct { // a form of the guest's own
			Message string `json:"message"`
		}
		if json.Unmarshal(e.Data, &plain) == nil && plain.Message != "" {
			return plain.Message, nil
		}
		return strings.ToValidUTF8(string(e.Data), "\uFFFD"), nil
	}
	return "", nil
}

// Entry is one record of a run's journal, as [Host.Journal] returns it. It is [store.Entry]. The fields that matter
// to readers are
//
//	Seq         store.Seq  // its number in the iteration, from 0
//	Kind        store.Kind // what it records, such as store.KindSleep; Kind.String names it
//	UnixMs      int64      // when, in milliseconds
//	Handle      int64      // of a call: its handle; of what resolves the call: the same
//	Name        string     // of the step, sleep, signal or child
//	Target      string     // the handler, workflow, run or token that it is about
//	Input       []byte     // what the workflow handed over
//	Data        []byte     // a result, a payload or the JSON of an error
//	DueUnixMs   int64      // the deadline of a sleep or wait, if HasDue is set
//	Attempt     uint32     // of a step, from 1
//
// The comments of the constants of [store.Kind] say which fields a kind uses; all other fields are zero. Call,
// Delivery and End of a Kind say whether the workflow made the entry, receives it, or ended with it. The bytes must
// not be changed.
type Entry = store.Entry

// Journal returns the durable entries of a run's newest iteration, starting at a seq.
func (s *scope) Journal(ctx context.Context, id string, from store.Seq) iter.Seq2[Entry, error] {
	return s.journal(ctx, id, nil, from)
}

// JournalOf returns the entries of an iteration, like Journal. Iterations are numbered from 0. A run that has
// continued as new keeps the journals of earlier iterations as long as its Retention says. JournalOf yields
// ErrNotFound if the run has not reached that iteration, or if its journal was removed.
func (s *scope) JournalOf(ctx context.Context, id string, iteration uint32, from store.Seq) iter.Seq2[Entry, error] {
	return s.journal(ctx, id, &iteration, from)
}

func (s *nsRef) journal(ctx context.Context, id string, iteration *uint32, from store.Seq) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		key, err := s.key(ctx, id)
		if err != nil {
			yield(Entry{}, translate(err))
			return
		}
		st, err := s.h.rt.Runs.State(ctx, key)
		if err == nil && iteration != nil {
			if *iteration > st.Iteration {
				err = fmt.Errorf("run %q, iteration %d: %w: the newest is %d", id, *iteration, store.ErrNotFound, st.Iteration)
			}
			if err == nil {
				err = st.Removed(*iteration)
			}
			st.Iteration = *iteration
		}
		if err != nil {
			yield(Entry{}, translate(err))
			return
		}
		for e, err := range s.h.store.Load(ctx, st.Run, st.Iteration, from) {
			if !yield(e, translate(err)) || err != nil {
				return
			}
		}
	}
}

// LogLine is one line of a run's log, as [Host.Logs] returns it. It is [store.LogLine]:
//
//	Index   uint64 // its number in the log of the run, from 0
//	UnixMs  int64  // when, in milliseconds
//	Level   int8   // abi.LogDebug, LogInfo, LogWarn or LogError
//	Step    string // the step that printed it; empty for the workflow itself
//	Attempt uint32 // of that step
//	Text    string
type LogLine = store.LogLine

// Logs returns at most limit stored lines of a run's log, starting at an index.
func (s *scope) Logs(ctx context.Context, id string, from uint64, limit int) ([]LogLine, error) {
	key, err := s.key(ctx, id)
	if err == nil {
		_, err = s.h.rt.Runs.State(ctx, key)
	}
	if err != nil {
		return nil, translate(err)
	}
	var lines []LogLine
	for len(lines) < limit {
		page, err := s.h.store.Logs(ctx, key, from, limit-len(lines))
		lines = append(lines, page...)
		if err != nil || len(page) == 0 {
			return lines, translate(err)
		}
		from = lines[len(lines)-1].Index + 1
	}
	return lines, nil
}

// Watch returns a channel that receives when an event of the run has become durable, until stop is called. The run
// need not exist. In a namespace that does not exist the channel never receives.
func (s *scope) Watch(id string) (changed <-chan struct{}, stop func()) {
	key, err := s.key(context.Background(), id)
	if err != nil {
		return nil, func() {}
	}
	return s.h.rt.Watchers.Watch(key)
}

// Wait blocks until the run has ended or is stuck, or ctx is done. It returns ErrFenced if the run has not ended and
// another host owns it.
func (s *scope) Wait(ctx context.Context, id string) (Run, error) {
	key, err := s.key(ctx, id)
	if err != nil {
		return Run{}, translate(err)
	}
	ended, stop := s.h.rt.Watchers.WatchEnd(key)
	defer stop()
	for {
		st, err := s.h.rt.Runs.Durable(ctx, key)
		r := s.h.runOf(st)
		if err != nil || r.Status.Terminal() || r.Status == Stuck {
			return r, translate(err)
		}
		if err := s.h.rt.Partitions.CheckOwned(key); err != nil {
			return r, translate(err)
		}
		select {
		case <-ended:
		case <-s.h.closed:
			return r, ErrClosed
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
}

// ResultRaw waits until the run has ended and returns its result. It returns a *RunError if the run did not complete,
// and ErrMismatch if it is stuck.
func (s *scope) ResultRaw(ctx context.Context, id string) ([]byte, error) {
	r, err := s.Wait(ctx, id)
	if err != nil {
		return nil, err
	}
	if r.Status == Stuck {
		return nil, &joined{fmt.Errorf("run %s is stuck: %s", id, r.Reason), ErrMismatch}
	}
	var last Entry
	for e, err := range s.Journal(ctx, id, store.Seq(r.Entries-1)) {
		if err != nil {
			return nil, err
		}
		last = e
		break // a retry may append more meanwhile
	}
	if last.Kind == store.KindCompleted {
		return last.Data, nil
	}
	re := &RunError{RunID: id, Status: r.Status, JSON: last.Data}
	if f, ok := failureOf(last.Data); ok {
		re.Failure = f
	}
	return nil, re
}

// Results provides the results of runs: a *Host or a *Namespace.
type Results interface {
	ResultRaw(ctx context.Context, id string) ([]byte, error)
}

// Result is ResultRaw with the result decoded from JSON. For a run without a result it returns the zero value.
func Result[T any](ctx context.Context, in Results, id string) (v T, err error) {
	b, err := in.ResultRaw(ctx, id)
	if err != nil || len(b) == 0 {
		return v, err
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return v, fmt.Errorf("result of run %s: %w", id, err)
	}
	return v, nil
}

// Replay replays the journal of a run against the run's module, in memory. It returns nil if the workflow still does
// what the journal records, or an error that names the entry and both sides. It changes nothing.
func (s *scope) Replay(ctx context.Context, id string) error {
	key, err := s.key(ctx, id)
	if err == nil {
		err = s.h.rt.Checks.Verify(ctx, key)
	}
	if _, ok := errors.AsType[*replay.Mismatch](err); ok {
		return &joined{err, ErrMismatch}
	}
	return translate(err)
}
