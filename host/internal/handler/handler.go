// Package handler holds the handlers of a host by name: Go functions that perform steps, and remote handlers, whose
// attempts other processes perform. It limits how many calls of functions are in flight, and turns the result of any
// call into an outcome.
package handler

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Func performs a step in Go. It gets the step's input and returns its result.
type Func func(ctx context.Context, a Attempt, input []byte) ([]byte, error)

// Attempt describes the attempt that a handler performs.
type Attempt struct {
	Run            store.RunKey
	Workflow       string
	Version        uint32
	Step           string
	Handler        string    // without its prefix; empty = a body, or a step function
	Seq            store.Seq // of the call's entry
	Number         uint32    // from 1
	Attempts       int       // at most; 0 = no limit
	IdempotencyKey string
	Incarnation    store.Incarnation
	TraceParent    string        // traceparent header of the start of the run; empty = none
	SinceMs        int64         // when it could have begun, in Unix milliseconds; 0 = unknown
	AtMostOnce     bool          // an attempt whose outcome is unknown is not repeated
	Timeout        time.Duration // of this attempt, from when it begins
	Details        []byte        // JSON that a handler recorded last, in this attempt or an earlier one; empty = none
}

// FatalError wraps a handler's error whose step must not be retried.
type FatalError struct{ Err error }

// Error returns the wrapped error's text.
func (e *FatalError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *FatalError) Unwrap() error { return e.Err }

// RetryAfterError wraps a handler's error and sets the delay before the next attempt.
type RetryAfterError struct {
	Err   error
	After time.Duration
}

// Error returns the wrapped error's text.
func (e *RetryAfterError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *RetryAfterError) Unwrap() error { return e.Err }

// Call calls the handler. An error fails the attempt, and so does a panic.
func (f Func) Call(ctx context.Context, a Attempt, input []byte) (out run.StepOutcome) {
	defer func() {
		if r := recover(); r != nil {
			out = run.StepFailure(abi.KindTrap, fmt.Sprintf("the handler panicked: %v", r), true)
			out.Err.Details = map[string]string{"stack": string(debug.Stack())}
		}
	}()
	data, err := f(ctx, a, input)
	if err == nil {
		return run.StepOutcome{Data: data}
	}
	out = run.StepFailure(abi.KindError, err.Error(), true)
	if fatal, ok := errors.AsType[*FatalError](err); ok {
		out.Err.Retryable = false
		err = fatal.Err
	}
	if after, ok := errors.AsType[*RetryAfterError](err); ok {
		out.RetryAfterMs = max(after.After.Milliseconds(), 0)
		err = after.Err
	}
	out.Err.Type = fmt.Sprintf("%T", err)
	return out
}
