//go:build !wasip1

package workflow

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/wfhost/wfhost/abi"
)

// failures lists the failed attempts of a step except the last, oldest first, as a host records them.
type failures []failedAttempt

type failedAttempt struct {
	Attempt     int             `json:"attempt"`
	StartUnixMs int64           `json:"start_ms"`
	DurationMs  int64           `json:"duration_ms"`
	Error       json.RawMessage `json:"error"`
}

// failedAttemptBytes is a host's estimate for the size of a failedAttempt without its error.
const failedAttemptBytes = 128

// add records a failed attempt that will be retried.
func (f *failures) add(began time.Time, s *StepError) {
	b, err := json.Marshal(hostError(s, true))
	if err == nil {
		*f = append(*f, failedAttempt{s.Attempts, began.UnixMilli(), time.Since(began).Milliseconds(), b})
	}
}

// complete adds the earlier failed attempts to the details of the last attempt's error. If they do not all fit into a
// payload, it leaves out the oldest and adds their number.
func (f failures) complete(s *StepError) *StepError {
	b, err := json.Marshal(hostError(s, false))
	if err != nil || len(f) == 0 {
		return s
	}
	var kept failures
	for i, room := len(f)-1, abi.MaxPayloadBytes-len(b); i >= 0; i-- {
		room -= len(f[i].Error) + failedAttemptBytes
		if room < 0 {
			break
		}
		kept = f[i:]
	}
	details := map[string]any{"history": kept, "details": s.Details}
	if left := len(f) - len(kept); left > 0 {
		details["left_out"] = left
	}
	s.Details = asDecoded(details)
	return s
}

// hostError returns the error of an attempt as a host records it.
func hostError(s *StepError, retryable bool) *abi.Error {
	code := abi.StepFailed
	if s.Code == abi.TooLarge.String() {
		code = abi.TooLarge
	}
	return &abi.Error{Code: code, Message: s.Message, Name: s.Name, Kind: s.Kind, Type: s.Type, Attempts: s.Attempts,
		Retryable: retryable, Details: s.Details}
}

// asDecoded returns the details of an error after a round trip through JSON, as the SDK decodes them from a host.
func asDecoded(v any) (details any) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if d.Decode(&details) != nil {
		return nil
	}
	return details
}
