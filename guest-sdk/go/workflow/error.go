package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
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

// sentinels maps the codes in error JSON to errors.
var sentinels = map[string]error{
	"INVALID_ARGUMENT": ErrInvalidArgument, "DUPLICATE_NAME": ErrDuplicateName, "INVALID_DURATION": ErrInvalidDuration,
	"INVALID_DATE": ErrInvalidDate, "NOT_HERE": ErrNotHere, "STEP_FAILED": ErrStepFailed, "TIMEOUT": ErrTimeout,
	"CANCELLED": ErrCancelled, "TOO_LARGE": ErrTooLarge, "UNKNOWN_HANDLER": ErrUnknownHandler, "DENIED": ErrDenied,
	"LIMIT": ErrLimit, "CHILD_FAILED": ErrChildFailed, "CONFLICT": ErrConflict,
}

// StepError is the refusal of a call, or the failure of a step or child. errors.Is recognizes the sentinel of its code.
type StepError struct {
	Code     string `json:"code"` // such as "STEP_FAILED"
	Message  string `json:"message"`
	Name     string `json:"name"`     // of the step or sleep
	Kind     string `json:"kind"`     // error, timeout, trap, memory, unknown
	Type     string `json:"type"`     // of the error in the failed code
	Attempts int    `json:"attempts"` // attempts made
	Details  any    `json:"details"`  // history of the attempts, stack; numbers are of type json.Number
	// Cause is the cause of the call's context, such as context.DeadlineExceeded, if the context had ended when the step
	// failed; else nil. The call waits for an attempt that has begun, so the step has its own outcome, too.
	Cause error `json:"-"`
}

// Error returns the message, with the name of the step and the number of attempts.
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

// Unwrap returns Cause.
func (e *StepError) Unwrap() error { return e.Cause }

// withCause sets Cause if a step failed and the context has ended. So the caller learns that its deadline has passed, and
// not only that the attempt was told to stop.
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

// parseError parses error JSON. Other text becomes the message of a STEP_FAILED error.
func parseError(b []byte) error {
	e := &StepError{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber() // details may have numbers that a float64 cannot represent
	if err := d.Decode(e); err != nil || e.Code == "" {
		e.Code, e.Message = "STEP_FAILED", string(b)
	}
	return e
}

type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

// Fatal wraps the error of a body or step function so that the step is not retried. Fatal(nil) is nil.
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

// RetryAfter wraps the error of a body or step function with the delay before the next attempt, which overrides the
// step's options. RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return retryAfterError{err, d}
}

// report is the error JSON that a body, a step function or a workflow passes to the host.
type report struct {
	Code         string `json:"code,omitempty"` // of a *StepError, such as STEP_FAILED
	Message      string `json:"message"`
	Name         string `json:"name,omitempty"`     // of the step or child that failed
	Attempts     int    `json:"attempts,omitempty"` // of the step
	Type         string `json:"type,omitempty"`
	Kind         string `json:"kind,omitempty"`
	Stack        string `json:"stack,omitempty"`
	Retryable    *bool  `json:"retryable,omitempty"`
	RetryAfterMs *int64 `json:"retry_after_ms,omitempty"`
}

// maxStackBytes limits the stack of a panic in a journal.
const maxStackBytes = 32 << 10

// maxMessageBytes limits the message of a report. A host accepts reports of at most 1 MiB, and JSON may have to escape each
// byte of the message.
const maxMessageBytes = 64 << 10

// bounded returns the message. If it is longer than maxMessageBytes, bounded truncates it and appends "…".
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

// reportOf converts an error to a report. If its Error method panics, as it may on a nil pointer, it reports the panic.
func reportOf(err error) (r report) {
	defer func() {
		if v := recover(); v != nil {
			r = panicReport(v, debug.Stack())
		}
	}()
	r = report{Message: bounded(err.Error())}
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

// typeOf returns the type name of an error. For joined errors it is the type of the first, which led to the rest.
func typeOf(err error) string {
	name := fmt.Sprintf("%T", err)
	if joined, ok := err.(interface{ Unwrap() []error }); ok && name == "*errors.joinError" { //nolint:errorlint // not wrapped
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
