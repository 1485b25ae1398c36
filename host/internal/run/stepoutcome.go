package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// StepOutcome is the outcome of an attempt: a result if Err is nil.
type StepOutcome struct {
	Data  []byte
	Bytes int // size of the result, if Data holds only the beginning of a result that is too large
	Err   *abi.Error
	// RetryAfterMs is the delay of the next attempt that the failure asks for, in milliseconds; -1 = by the step's options.
	RetryAfterMs int64
	// Abandoned reports that the attempt did not end: the host stops, or no longer has the handler.
	Abandoned bool
}

// StepFailure returns the outcome of an attempt that failed.
func StepFailure(kind, message string, retryable bool) StepOutcome {
	return StepOutcome{Err: &abi.Error{Code: abi.StepFailed, Kind: kind, Message: message, Retryable: retryable},
		RetryAfterMs: -1}
}

// Of an error over abi.MaxPayloadBytes, this much of each text is kept. JSON may need six bytes for one, and even then the error
// stays within the limit.
const (
	maxMessageBytes = 64 << 10
	maxStackBytes   = 32 << 10
	maxTypeBytes    = 1 << 10
)

// bounded returns the text. If it is longer than n bytes, bounded truncates it and appends "…".
func bounded(text string, n int) string {
	if len(text) <= n {
		return text
	}
	end := n
	for end > n-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// ReportedOutcome returns the outcome of a failed attempt. b is the error that a body or step function reported: error
// JSON, or any text, which becomes the message. If b is over abi.MaxPayloadBytes, ReportedOutcome truncates its texts.
func ReportedOutcome(b []byte) StepOutcome {
	var e struct {
		Message      string `json:"message"`
		Type         string `json:"type"`
		Kind         string `json:"kind"`
		Stack        string `json:"stack"`
		Retryable    *bool  `json:"retryable"`
		RetryAfterMs *int64 `json:"retry_after_ms"`
	}
	long := len(b) > abi.MaxPayloadBytes
	err := json.Unmarshal(b, &e)
	if err != nil || e.Message == "" && e.Type == "" && e.Kind == "" && e.Stack == "" { // text, or other JSON
		if long {
			b = []byte(bounded(string(b[:maxMessageBytes+utf8.UTFMax]), maxMessageBytes))
		}
		e.Message = strings.ToValidUTF8(string(b), "�")
	}
	if long {
		e.Message, e.Stack, e.Type = bounded(e.Message, maxMessageBytes), bounded(e.Stack, maxStackBytes), bounded(e.Type, maxTypeBytes)
	}
	if e.Message == "" {
		e.Message = "the step failed without a message"
	}
	out := StepFailure(abi.KindError, e.Message, e.Retryable == nil || *e.Retryable)
	out.Err.Type = e.Type
	if e.Kind == abi.KindTrap {
		out.Err.Kind = abi.KindTrap
	}
	if e.Stack != "" {
		out.Err.Details = map[string]string{"stack": e.Stack}
	}
	if e.RetryAfterMs != nil && err == nil { // json sets a number out of range to 0
		out.RetryAfterMs = max(*e.RetryAfterMs, 0)
	}
	return out
}

// ErrStepTimeout is the context cause for an attempt that exceeded the step's timeout.
var ErrStepTimeout = errors.New("the attempt ran over the step's timeout")

// StepTimeout returns the outcome of an attempt that exceeded the step's timeout d.
func StepTimeout(d time.Duration) StepOutcome {
	return StepFailure(abi.KindTimeout, fmt.Sprintf("%v of %v", ErrStepTimeout, d), true)
}

// UnknownOutcome returns the entry that fails an at-most-once step if the host stopped or the run ended during its only try.
func UnknownOutcome(j *journal.Journal, h *journal.Handle) (store.Entry, error) {
	return failure(j, h, h.Step.Attempt, 0, &abi.Error{Code: abi.StepFailed, Kind: abi.KindUnknown,
		Message: "the host stopped, or the run ended, while the only attempt was running; nobody knows its outcome"})
}

// Entry returns the journal entry for the outcome of a try: a result, a failed attempt that will be retried, or the failure of
// the step. A result over abi.MaxPayloadBytes fails the step. If the workflow cancelled the try, there is no retry.
func (t *Try) Entry(j *journal.Journal, out StepOutcome, cancelled bool, now int64) (store.Entry, error) {
	if n := max(len(out.Data), out.Bytes); out.Err == nil && n > abi.MaxPayloadBytes {
		out = StepOutcome{Err: &abi.Error{Code: abi.TooLarge, Kind: abi.KindError, Message: fmt.Sprintf(
			"result of step %q has %d bytes, the limit is %d", t.Name, n, abi.MaxPayloadBytes)}}
	}
	if out.Err == nil {
		return store.Entry{Kind: store.KindStepResult, Handle: t.Handle, Attempt: t.Number, Data: out.Data,
			StartUnixMs: t.StartMs}, nil
	}
	h := j.Handle(t.Handle)
	failed := *out.Err
	due, again := t.retry(h.Step, out, now)
	if cancelled || !again {
		return failure(j, h, t.Number, t.StartMs, &failed)
	}
	failed.Name, failed.Attempts = t.Name, int(h.Step.Failures)+1
	data, err := encoded(&failed)
	return store.Entry{Kind: store.KindAttemptFailed, Handle: t.Handle, Attempt: t.Number, Data: data,
		StartUnixMs: t.StartMs, DueUnixMs: due, HasDue: true}, err
}

// historyBytes is what a history without attempts takes in the JSON of an error.
const historyBytes = 64

// encoded returns the JSON of an error. If that, with a history, would be over abi.MaxPayloadBytes, encoded truncates the error's
// texts, so that a workflow can fail with the error.
func encoded(e *abi.Error) ([]byte, error) {
	data, err := json.Marshal(e)
	if err == nil && len(data) > abi.MaxPayloadBytes-historyBytes {
		e.Message, e.Type = bounded(e.Message, maxMessageBytes), bounded(e.Type, maxTypeBytes)
		if d, ok := e.Details.(map[string]string); ok {
			e.Details = map[string]string{"stack": bounded(d["stack"], maxStackBytes)}
		}
		data, err = json.Marshal(e)
	}
	return data, err
}

// retry returns the instant of the next try, which is never 0; false if there is no next try.
func (t *Try) retry(s *journal.Step, out StepOutcome, now int64) (int64, bool) {
	o := s.Options
	if !out.Err.Retryable || o.Attempts > 0 && int(t.Number-s.Base) >= o.Attempts ||
		o.AtMostOnce && out.Err.Kind != abi.KindError {
		return 0, false
	}
	delay := o.RetryDelayMs(int(s.Failures)+1, t.jitter())
	if out.RetryAfterMs >= 0 {
		delay = out.RetryAfterMs
	}
	due, err := abi.AddMs(now, delay)
	if err != nil || o.MaxElapsedMs > 0 && due > s.FirstMs+o.MaxElapsedMs {
		return 0, false
	}
	return max(due, 1), true
}

// failure returns the entry that fails a step, with the history of its failed tries.
func failure(j *journal.Journal, h *journal.Handle, number uint32, startMs int64, e *abi.Error) (store.Entry, error) {
	e.Name, e.Attempts, e.Retryable = h.Name, int(h.Step.Failures)+1, false
	data, err := encoded(e)
	if list, left := history(j, h.ID, abi.MaxPayloadBytes-historyBytes-len(data)); len(list)+left > 0 && err == nil {
		details := map[string]any{"history": list, "details": e.Details}
		if left > 0 {
			details["left_out"] = left
		}
		e.Details = details
		data, err = json.Marshal(e)
	}
	entry := store.Entry{Kind: store.KindStepFailure, Handle: h.ID, Attempt: number, Data: data, StartUnixMs: startMs}
	if e.Code != abi.StepFailed {
		entry.Code = int32(e.Code)
	}
	return entry, err
}

// Tried is one failed attempt in the history of a step.
type Tried struct {
	Attempt     uint32          `json:"attempt"`
	StartUnixMs int64           `json:"start_ms"`
	DurationMs  int64           `json:"duration_ms"`
	Error       json.RawMessage `json:"error"`
}

// triedBytes is an upper bound for the JSON of a Tried without its error.
const triedBytes = 128

// history returns the newest failed attempts of a step that fit into room bytes, oldest first, and the number of older attempts
// that it left out.
func history(j *journal.Journal, handle int64, room int) (list []Tried, left int) {
	for _, e := range slices.Backward(j.Entries()) {
		if e.Kind != store.KindAttemptFailed || e.Handle != handle {
			continue
		}
		room -= len(e.Data) + triedBytes
		if room < 0 {
			left++
			continue
		}
		list = append(list, Tried{Attempt: e.Attempt, StartUnixMs: e.StartUnixMs, DurationMs: e.UnixMs - e.StartUnixMs, Error: e.Data})
	}
	slices.Reverse(list)
	return list, left
}
