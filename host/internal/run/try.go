package run

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/traceid"
	"github.com/wfhost/wfhost/store"
)

// AttemptSubject identifies the run of an attempt and the code that it executes.
type AttemptSubject struct {
	Run         store.RunKey
	Incarnation store.Incarnation
	Iteration   uint32
	Workflow    string
	Version     uint32
	Module      store.Digest
}

// Try is one try of a step, with everything its executor needs. It is immutable.
type Try struct {
	Run     AttemptSubject
	Started journal.Started
	Handle  int64
	Name    string
	Target  string    // handler; empty = body
	Number  uint32    // counted from 1
	Seq     store.Seq // seq of the call
	Options abi.StepOptions
	Input   []byte
	Last    []byte           // error JSON of the newest failed try
	Details []byte           // newest progress that a handler recorded
	StartMs int64            // when the try began, in Unix milliseconds
	Until   store.Suspension // where the guest waits; the copy of a body replays up to there
	Entries []store.Entry    // journal up to there
	// StartedMs is started_at of the run.
	StartedMs int64
}

// NewTry returns try number of a step, starting now.
func NewTry(of AttemptSubject, j *journal.Journal, h *journal.Handle, number uint32, now int64) Try {
	entries := j.Entries()
	where, _ := j.Suspension()
	startedMs, _ := j.StartedUnixMs()
	return Try{Run: of, Started: j.Started(), Handle: h.ID, Name: h.Name, Target: h.Target, Number: number, Seq: h.CallSeq,
		Options: h.Step.Options, Input: entries[h.CallSeq].Input, Last: h.Step.LastError, Details: h.Step.Details,
		StartMs: now, Until: where,
		Entries: entries, StartedMs: startedMs}
}

// Alone reports whether the try is of a body and the guest waits for it, and for no handle other than it. Then the guest's own
// instance may execute the body.
func (t *Try) Alone() bool {
	deaf := t.Until.Poll && !t.Until.Events
	other := !t.Until.Poll && len(t.Until.Awaited) > 0
	for _, id := range t.Until.Awaited {
		other = other && id != t.Handle
	}
	return t.Target == "" && !deaf && !other
}

// IdempotencyKey returns the key that all attempts of a step share: the first 26 characters of the base32 (RFC 4648) of
// SHA-256(incarnation ‖ iteration u32le ‖ name).
func IdempotencyKey(i store.Incarnation, iteration uint32, name string) string {
	b := append(make([]byte, 0, 128), i[:]...) // on the stack, unless the name is long
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint32(b, iteration), name...))
	var text [(sha256.Size + 4) / 5 * 8]byte
	base32.StdEncoding.Encode(text[:], sum[:])
	return string(text[:26])
}

// Key returns the idempotency key of the try's step.
func (t *Try) Key() string { return IdempotencyKey(t.Run.Incarnation, t.Run.Iteration, t.Name) }

// jitter returns a number in [0, 1), derived from the run, the step and the number of the try.
func (t *Try) jitter() float64 {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint32([]byte(t.Key()), t.Number))
	return float64(binary.LittleEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// maxRecoveries limits how often a step with no tries left is started again because its host died during it. Hosts with a
// quarantine (package quarantine) make such a run stuck after five crashes. This limit is for hosts without one, whose store is
// not their own. It is higher than the number of times anyone kills a host during one step, so it hits no innocent run.
const maxRecoveries = 1000

// NextAttempt is the next action for an open step.
type NextAttempt struct {
	Number   uint32 // number of the next try
	Recovery bool   // the host stopped while the previous try was running, or may have been
	Recorded bool   // the try must be recorded before it begins
	// Lost reports that the host stopped, or the run ended, while the only try was running: there is no next try, and the step
	// fails.
	Lost bool
	// Poison reports that the step has used up its tries and the host stopped maxRecoveries times during it: no next try.
	Poison bool
}

// NextAttemptOf returns the next action for an open step. Entries before restored were read from the store: a first try of
// a step called there may have begun before the host stopped.
func NextAttemptOf(h *journal.Handle, restored int) NextAttempt {
	s := h.Step
	if s.InFlight && s.Options.AtMostOnce {
		return NextAttempt{Lost: true}
	}
	first := s.Attempt == 0
	n := NextAttempt{Number: s.Attempt + 1}
	n.Recovery = s.InFlight || first && int(h.CallSeq) < restored && !s.Options.AtMostOnce
	if first && n.Recovery {
		n.Number = 2
	}
	n.Recorded = n.Number > 1 || s.Options.AtMostOnce
	n.Poison = n.Recovery && s.Options.Attempts > 0 && int(n.Number-s.Base) > s.Options.Attempts &&
		s.Recoveries >= maxRecoveries
	return n
}

// Entry returns the entry that records the start of the try.
func (n NextAttempt) Entry(handle int64) store.Entry {
	e := store.Entry{Kind: store.KindAttemptStarted, Handle: handle, Attempt: n.Number}
	if n.Recovery {
		e.Code = journal.StartedByRecovery
	}
	return e
}

// Span returns the trace id data of the try.
func (t *Try) Span() traceid.Attempt {
	return traceid.Attempt{Incarnation: t.Run.Incarnation, Header: t.Started.TraceParent, IdempotencyKey: t.Key(), Number: t.Number}
}
