// Package step decides what becomes of the steps of a run: which try of one is to begin, what whoever performs it has to
// know, and what the journal records of its outcome. It is pure, and knows of no run but its journal: the caller appends
// what the package returns, and has the tries made.
package step

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/traceid"
	"github.com/wfhost/wfhost/store"
)

// Subject is the run that an attempt belongs to, and what of it is executed.
type Subject struct {
	Run         store.RunKey
	Incarnation store.Incarnation
	Iteration   uint32
	Workflow    string
	Version     uint32
	Module      store.Digest
}

// Try is one try of one step. It says what whoever performs it has to know; nothing of it changes.
type Try struct {
	Run     Subject
	Started journal.Started
	Handle  int64
	Name    string
	Target  string    // handler; empty = body
	Number  uint32    // from 1
	Seq     store.Seq // of the call's entry
	Options abi.StepOptions
	Input   []byte
	Last    []byte           // error JSON of the try before
	Details []byte           // what a handler has recorded last
	StartMs int64            // when it began
	Until   store.Suspension // where the guest stands: a body's copy of the workflow replays up to there
	Entries []store.Entry    // of the journal, up to there
	// StartedMs is started_at of the run.
	StartedMs int64
}

// NewTry returns the try of a number of a step, which begins now.
func NewTry(of Subject, j *journal.Journal, h *journal.Handle, number uint32, now int64) Try {
	entries := j.Entries()
	where, _ := j.Suspension()
	startedMs, _ := j.StartedUnixMs()
	return Try{Run: of, Started: j.Started(), Handle: h.ID, Name: h.Name, Target: h.Target, Number: number, Seq: h.CallSeq,
		Options: h.Step.Options, Input: entries[h.CallSeq].Input, Last: h.Step.LastError, Details: h.Step.Details,
		StartMs: now, Until: where,
		Entries: entries, StartedMs: startedMs}
}

// Alone reports whether the guest waits for this try of a body and nothing else: its own instance may execute it.
func (t *Try) Alone() bool {
	deaf := t.Until.Poll && !t.Until.Events
	other := !t.Until.Poll && len(t.Until.Awaited) > 0
	for _, id := range t.Until.Awaited {
		other = other && id != t.Handle
	}
	return t.Target == "" && !deaf && !other
}

// IdempotencyKey returns the key that all attempts of a step share: the first 26 characters of the base32 (RFC
// 4648) of SHA-256(incarnation ‖ iteration u32le ‖ name).
func IdempotencyKey(i store.Incarnation, iteration uint32, name string) string {
	b := binary.LittleEndian.AppendUint32(i[:], iteration)
	sum := sha256.Sum256(append(b, name...))
	return base32.StdEncoding.EncodeToString(sum[:])[:26]
}

// Key returns the idempotency key of the try's step.
func (t *Try) Key() string { return IdempotencyKey(t.Run.Incarnation, t.Run.Iteration, t.Name) }

// jitter returns a number in [0, 1) that differs between runs, steps and attempts.
func (t *Try) jitter() float64 {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint32([]byte(t.Key()), t.Number))
	return float64(binary.LittleEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// maxRecoveries is how often a step whose tries are used up is begun again because its host died in the middle of it. A host
// that watches who brings it down (package quarantine) finds out after five times. This is for one that does not, whose store
// is not its own: more than anybody kills a host in the middle of one step, so that it sets no innocent run aside.
const maxRecoveries = 1000

// Next is what becomes of a step that may be tried.
type Next struct {
	Number   uint32 // of the try
	Recovery bool   // the host stopped while the try before it was running, or may have been
	Recorded bool   // it is recorded before it begins
	// Lost says that the host stopped, or the run ended, while the only try was running: there is none, and the step has
	// failed.
	Lost bool
	// Poison says that the host stopped again and again while the step was running: there is none.
	Poison bool
}

// NextOf returns what becomes of a step, of which the entries before restored were read from the store.
func NextOf(h *journal.Handle, restored int) Next {
	s := h.Step
	if s.InFlight && s.Options.AtMostOnce {
		return Next{Lost: true}
	}
	first := s.Attempt == 0
	n := Next{Number: s.Attempt + 1}
	n.Recovery = s.InFlight || first && int(h.CallSeq) < restored && !s.Options.AtMostOnce
	if first && n.Recovery {
		n.Number = 2
	}
	n.Recorded = n.Number > 1 || s.Options.AtMostOnce
	n.Poison = n.Recovery && s.Options.Attempts > 0 && int(n.Number-s.Base) > s.Options.Attempts &&
		s.Recoveries >= maxRecoveries
	return n
}

// Entry returns what is recorded before the try of a handle begins.
func (n Next) Entry(handle int64) store.Entry {
	e := store.Entry{Kind: store.KindAttemptStarted, Handle: handle, Attempt: n.Number}
	if n.Recovery {
		e.Code = journal.StartedByRecovery
	}
	return e
}

// Span returns the try's span.
func (t *Try) Span() traceid.Attempt {
	return traceid.Attempt{Incarnation: t.Run.Incarnation, Header: t.Started.TraceParent, IdempotencyKey: t.Key(), Number: t.Number}
}
