// Package handler has the handlers of a host: the functions in Go that perform steps, and those whose attempts are performed by
// other processes. It knows them by name, bounds how many calls of functions go on, and makes an outcome of whatever a call
// comes to.
package handler

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/step"
	"github.com/wfhost/wfhost/store"
)

// Func performs a step in Go. It gets the step's input and returns its result.
type Func func(ctx context.Context, a Attempt, input []byte) ([]byte, error)

// Attempt says which attempt of which step is performed.
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
	TraceParent    string        // header under which the run was started; empty = none
	AtMostOnce     bool          // one whose outcome is unknown is not made again
	Timeout        time.Duration // of this attempt, from when it begins
	Details        []byte        // JSON that a handler has recorded last, in this attempt or one before; empty = nothing
}

// FatalError wraps the error of a handler that must not be tried again.
type FatalError struct{ Err error }

// Error returns the wrapped error's text.
func (e *FatalError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *FatalError) Unwrap() error { return e.Err }

// RetryAfterError wraps the error of a handler that says itself when it is to be tried again.
type RetryAfterError struct {
	Err   error
	After time.Duration
}

// Error returns the wrapped error's text.
func (e *RetryAfterError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *RetryAfterError) Unwrap() error { return e.Err }

// Call calls the handler. An error is a failure of the attempt, and so is a panic.
func (f Func) Call(ctx context.Context, a Attempt, input []byte) (out step.Outcome) {
	defer func() {
		if r := recover(); r != nil {
			out = step.Failure(abi.KindTrap, fmt.Sprintf("the handler panicked: %v", r), true)
			out.Err.Details = map[string]string{"stack": string(debug.Stack())}
		}
	}()
	data, err := f(ctx, a, input)
	if err == nil {
		return step.Outcome{Data: data}
	}
	out = step.Failure(abi.KindError, err.Error(), true)
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
