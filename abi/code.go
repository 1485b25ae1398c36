package abi

import (
	"encoding/json"
	"fmt"
)

// Code says why a call was refused or how a handle was resolved. Over the boundary it travels negated:
// a guest reads -2 for DuplicateName. Numbers are never reused.
type Code int32

// The codes of ABI v1.
const (
	OK              Code = 0
	InvalidArgument Code = 1  // a name, option or number is not allowed; the message says which
	DuplicateName   Code = 2  // the name was used before in this iteration of the run
	InvalidDuration Code = 3  // the text is not a duration
	InvalidDate     Code = 4  // the instant is malformed or beyond the end of year 9999
	NotHere         Code = 5  // the call belongs to a workflow, not to a body or a step instance, or the reverse
	StepFailed      Code = 6  // the step used up its attempts, or failed for good
	Timeout         Code = 7  // a wait ended by its time-out
	Cancelled       Code = 8  // the handle was withdrawn, or the run was asked to cancel
	TooLarge        Code = 9  // the payload is over its limit
	UnknownHandle   Code = 10 // no such handle in this run
	UnknownHandler  Code = 11 // no step function or host handler of that name
	Denied          Code = 12 // the version's grants do not allow it, or this host does not offer it
	Limit           Code = 13 // a limit of the run is reached
	ChildFailed     Code = 14 // the child run did not complete
	Conflict        Code = 15 // the id or token is taken by another
	Pending         Code = 16 // the guest has not yet been told the outcome of this handle
	Query           Code = 17 // this activation serves a query
	RunBody         Code = 18 // execute a body now; last holds its handle
	Freeze          Code = 19 // return from the entry point at once; workflow_thaw goes on
)

var codeNames = [...]string{
	OK: "OK", InvalidArgument: "INVALID_ARGUMENT", DuplicateName: "DUPLICATE_NAME",
	InvalidDuration: "INVALID_DURATION", InvalidDate: "INVALID_DATE", NotHere: "NOT_HERE",
	StepFailed: "STEP_FAILED", Timeout: "TIMEOUT", Cancelled: "CANCELLED", TooLarge: "TOO_LARGE",
	UnknownHandle: "UNKNOWN_HANDLE", UnknownHandler: "UNKNOWN_HANDLER", Denied: "DENIED", Limit: "LIMIT",
	ChildFailed: "CHILD_FAILED", Conflict: "CONFLICT", Pending: "PENDING", Query: "QUERY", RunBody: "RUN_BODY", Freeze: "FREEZE",
}

// String gives the code's stable name, such as "STEP_FAILED".
func (c Code) String() string {
	if c >= 0 && int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("CODE_%d", int32(c))
}

// Neg gives the value that a call answers with for this code: 0 for OK, else -code.
func (c Code) Neg() int64 { return -int64(c) }

// MarshalText gives the stable name, which is what JSON shows.
func (c Code) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText accepts a stable name.
func (c *Code) UnmarshalText(text []byte) error {
	for i, name := range codeNames {
		if name == string(text) {
			*c = Code(i)
			return nil
		}
	}
	return fmt.Errorf("unknown code %q", text)
}

// Values of Error.Kind for StepFailed.
const (
	KindError   = "error"   // the handler or body reported a failure
	KindTimeout = "timeout" // the attempt ran over the step's timeout
	KindJournal = "journal" // of LIMIT: the journal of the run is full
	KindTrap    = "trap"    // the guest trapped
	KindMemory  = "memory"  // the guest broke down after its memory or a table could not grow
	KindStack   = "stack"   // the calls of the guest were nested too deeply
	KindUnknown = "unknown" // at_most_once, and nobody knows whether the effect happened
)

// Error is a refusal or failure as a guest sees it: the JSON that last answers after a negative result,
// and that fail and a failed step_end hand over.
type Error struct {
	Code      Code   `json:"code,omitzero"` // absent from an error of the workflow's own
	Message   string `json:"message"`
	Name      string `json:"name,omitempty"`      // of the step, sleep, … that failed
	Kind      string `json:"kind,omitempty"`      // for StepFailed: one of the Kind constants
	Type      string `json:"type,omitempty"`      // the failing code's own error type, free text
	Attempts  int    `json:"attempts,omitempty"`  // how many attempts were made
	Retryable bool   `json:"retryable,omitempty"` // whether another attempt could succeed
	Details   any    `json:"details,omitempty"`   // retry history, stack, … for people; a json.RawMessage in what was decoded
	Handle    int64  `json:"handle,omitempty"`    // of CANCELLED and QUERY: the only handle that was awaited, still open
}

// UnmarshalJSON decodes an error. Details are kept as they are written, so that no number of them is another one.
func (e *Error) UnmarshalJSON(b []byte) error {
	type plain Error
	x := struct {
		*plain

		Details json.RawMessage `json:"details"`
	}{plain: (*plain)(e)}
	err := json.Unmarshal(b, &x)
	e.Details = nil
	if len(x.Details) > 0 && string(x.Details) != "null" {
		e.Details = x.Details
	}
	return err
}

// Error makes *Error an error: "NAME: message".
func (e *Error) Error() string { return e.Code.String() + ": " + e.Message }

// Errorf makes an Error with a formatted message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
