package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Errors to be tested with errors.Is.
var (
	ErrInvalidArgument = errors.New("invalid argument")
	ErrDuplicateName   = errors.New("name is used twice in this run")
	ErrInvalidDuration = errors.New("invalid duration")
	ErrInvalidDate     = errors.New("invalid date")
	ErrNotHere         = errors.New("this call belongs to the workflow, a step's body cannot make it")
	ErrStepFailed      = errors.New("step failed")
	ErrTimeout         = errors.New("timed out")
	ErrCancelled       = errors.New("cancelled")
	ErrTooLarge        = errors.New("too large")
	ErrUnknownHandler  = errors.New("unknown handler")
	ErrDenied          = errors.New("not allowed")
	ErrLimit           = errors.New("limit reached")
	ErrChildFailed     = errors.New("child run did not complete")
	ErrConflict        = errors.New("conflict")
)

// sentinels by the name of the code in error JSON.
var sentinels = map[string]error{
	"INVALID_ARGUMENT": ErrInvalidArgument, "DUPLICATE_NAME": ErrDuplicateName, "INVALID_DURATION": ErrInvalidDuration,
	"INVALID_DATE": ErrInvalidDate, "NOT_HERE": ErrNotHere, "STEP_FAILED": ErrStepFailed, "TIMEOUT": ErrTimeout,
	"CANCELLED": ErrCancelled, "TOO_LARGE": ErrTooLarge, "UNKNOWN_HANDLER": ErrUnknownHandler, "DENIED": ErrDenied,
	"LIMIT": ErrLimit, "CHILD_FAILED": ErrChildFailed, "CONFLICT": ErrConflict,
}

// StepError is a refusal, or the failure of a step. errors.Is finds the sentinel of its code.
type StepError struct {
	Code     string `json:"code"` // such as "STEP_FAILED"
	Message  string `json:"message"`
	Name     string `json:"name"`     // of the step or sleep
	Kind     string `json:"kind"`     // error, timeout, trap, memory, unknown
	Type     string `json:"type"`     // of the error in the code that failed
	Attempts int    `json:"attempts"` // made
	Details  any    `json:"details"`  // history of the attempts, stack; numbers are of type json.Number
	// Cause is why the context of the call had ended by the time that the step failed, such as context.DeadlineExceeded; nil
	// if it had not. An attempt that has begun is waited for, so the step has an outcome of its own.
	Cause error `json:"-"`
}

// Error names the step and says what happened.
func (e *StepError) Error() string {
	text := e.Message
	switch {
	case e.Name == "":
	case e.Attempts > 0:
		unit := "attempts"
		if e.Attempts == 1 {
			unit = "attempt"
		}
		text = fmt.Sprintf("step %q failed after %d %s: %s", e.Name, e.Attempts, unit, e.Message)
	default:
		text = fmt.Sprintf("%q: %s", e.Name, e.Message)
	}
	if e.Cause != nil {
		text += fmt.Sprintf(" (the context of the call has ended: %v)", e.Cause)
	}
	return text
}

// Unwrap returns why the context of the call had ended, nil if it had not.
func (e *StepError) Unwrap() error { return e.Cause }

// withCause adds why the context has ended to the failure of a step: the caller learns that its deadline has passed, and not
// only that the attempt was told to stop.
func withCause(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*StepError](err); ok && sentinels[e.Code] == ErrStepFailed && ctx.Err() != nil {
		e.Cause = context.Cause(ctx)
	}
	return err
}

// Is reports whether target is the sentinel of the error's code, or ErrTimeout for an attempt that timed out.
func (e *StepError) Is(target error) bool {
	return sentinels[e.Code] == target || e.Kind == "timeout" && target == ErrTimeout
}

// parseError reads error JSON.
func parseError(b []byte) error {
	e := &StepError{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber() // details may hold numbers that a float64 does not
	if err := d.Decode(e); err != nil || e.Code == "" {
		e.Code, e.Message = "STEP_FAILED", string(b)
	}
	return e
}

type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

// Fatal marks the error of a body or step function as one that must not be retried. Fatal(nil) is nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return fatalError{err}
}

type retryAfterError struct {
	error
	after time.Duration
}

func (e retryAfterError) Unwrap() error { return e.error }

// RetryAfter sets the delay before the next attempt, in place of the step's own. RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return retryAfterError{err, d}
}

// report is the error JSON that a body, a step function or a workflow hands over.
type report struct {
	Code         string `json:"code,omitempty"` // of the refusal or failure that it is, such as STEP_FAILED
	Message      string `json:"message"`
	Name         string `json:"name,omitempty"`     // of the step or child whose failure it is
	Attempts     int    `json:"attempts,omitempty"` // of the step
	Type         string `json:"type,omitempty"`
	Kind         string `json:"kind,omitempty"`
	Stack        string `json:"stack,omitempty"`
	Retryable    *bool  `json:"retryable,omitempty"`
	RetryAfterMs *int64 `json:"retry_after_ms,omitempty"`
}

// maxStackBytes bounds the stack of a panic in a journal.
const maxStackBytes = 32 << 10

// maxMessageBytes bounds the message of a report: a host takes a report of at most 1 MiB, also if JSON escapes all of the
// message.
const maxMessageBytes = 64 << 10

// bounded returns a message, or its beginning and "…" if it is longer than maxMessageBytes.
func bounded(message string) string {
	if len(message) <= maxMessageBytes {
		return message
	}
	end := maxMessageBytes
	for end > maxMessageBytes-utf8.UTFMax && !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + "…"
}

// reportOf returns the report of an error.
func reportOf(err error) report {
	r := report{Message: bounded(err.Error())}
	if after, ok := errors.AsType[retryAfterError](err); ok {
		ms := max(millis(after.after), 0)
		r.RetryAfterMs = &ms
		err = after.error
	}
	if fatal, ok := errors.AsType[fatalError](err); ok {
		no := false
		r.Retryable = &no
		err = fatal.error
	}
	if step, ok := errors.AsType[*StepError](err); ok {
		r.Code, r.Name, r.Attempts = step.Code, step.Name, step.Attempts
	}
	r.Type = typeOf(err)
	return r
}

// typeOf returns the name of an error's type: of joined ones, that of the first, which led to the others.
func typeOf(err error) string {
	name := fmt.Sprintf("%T", err)
	if joined, ok := err.(interface{ Unwrap() []error }); ok && name == "*errors.joinError" { //nolint:errorlint // of it alone
		return typeOf(joined.Unwrap()[0])
	}
	return strings.TrimPrefix(name, "*")
}

func panicReport(v any, stack []byte) report {
	if len(stack) > maxStackBytes {
		stack = stack[:maxStackBytes]
	}
	return report{Message: bounded(fmt.Sprintf("panic: %v", v)), Type: "panic", Kind: "trap", Stack: string(stack)}
}

func (r report) json() string {
	b, err := json.Marshal(r)
	if err != nil {
		return `{"message":"the error cannot be shown"}`
	}
	return string(b)
}
