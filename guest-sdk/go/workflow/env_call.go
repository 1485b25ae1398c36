//go:build !wasip1

package workflow

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/wfhost/wfhost/abi"
)

// EnvCall is a call of a workflow in an Env, with its outcome. The journal of a run on a host has the same calls in the same
// order, with the same names, payloads and errors.
type EnvCall struct {
	// Kind is the kind of the call in a journal: sleep, step (by Call), body (by Do), signal_wait, signal_send, hook, child,
	// emit, set_attribute, version, cancel_policy, continue_as_new or update_reply.
	Kind string
	// Name is the name of the step, sleep, child, hook or signal, the topic of an output, the key of an attribute or the id
	// of a marker.
	Name string
	// Target is the handler of a step, the workflow of a child, the receiving run of a signal, or the token that the workflow
	// has chosen for a hook.
	Target string
	// RunID is the run id of a child, for Env.Child.
	RunID string
	// Input is the encoded argument of the call: the input of a step, child or iteration, the payload of a signal or output,
	// the value of an attribute, or the answer to an update.
	Input []byte
	// Options is the JSON of the options; empty if none were set.
	Options string
	// Iteration is the number of the iteration, from 0.
	Iteration uint32
	// At is the time of the call, and Ended the time of its outcome, since the Env was created.
	At, Ended time.Duration
	// Attempts is the number of attempts of a step.
	Attempts int
	// Code is empty while the call is in progress. Afterwards it is OK, WITHDRAWN if its context ended first, or the code of
	// the error, such as STEP_FAILED. Message is the error's message.
	Code, Message string
	// Refused reports whether the call was refused. A refused call has an error and no effect.
	Refused bool
	// Result is the result of a step or child, the payload of a signal, the token of a hook, the index of an output, or the
	// number of a marker or policy.
	Result []byte

	cut *envCut // of its iteration
	run *envRun // counts the open call; nil if the call has its outcome at once
}

// Values of EnvCall.Code besides the codes of errors.
const (
	codeOK        = "OK"
	codeWithdrawn = "WITHDRAWN"
)

// Calls returns the calls of the workflow in order, including the calls of earlier iterations.
func (e *Env) Calls() []EnvCall {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]EnvCall, len(e.calls))
	for i, c := range e.calls {
		list[i] = *c
		list[i].run = nil
	}
	return list
}

// Steps returns the names of the steps, sleeps and children that the workflow has begun, in order.
func (e *Env) Steps() []string {
	var names []string
	for _, c := range e.Calls() {
		if unique(c.Kind) && !c.Refused {
			names = append(names, c.Name)
		}
	}
	return names
}

// unique reports whether names of this kind of call must be unique in an iteration.
func unique(kind string) bool {
	return slices.Contains([]string{"sleep", "step", "body", "child"}, kind)
}

// opens reports whether the outcome of this kind of call may come later.
func opens(kind string) bool {
	return unique(kind) || slices.Contains([]string{"signal_wait", "signal_send", "hook"}, kind)
}

// make records a call. It returns an error if check or the state of the run refuses the call.
func (e *Env) make(ctx context.Context, c *EnvCall, check func() error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.makeLocked(ctx, c, check)
}

// makeLocked is make for a caller that holds the lock. It refuses calls of goroutines whose iteration was cut.
func (e *Env) makeLocked(ctx context.Context, c *EnvCall, check func() error) error {
	if err := cutLocked(ctx); err != nil {
		return err
	}
	c.Iteration, c.At, c.cut = e.iteration, time.Since(e.started), e.cut
	e.calls = append(e.calls, c)
	err := check()
	if err == nil {
		err = e.run.room(c)
	}
	if err != nil {
		err = refusal(err)
		c.Refused, c.Input, c.Options = true, nil, ""
		e.endLocked(c, nil, err)
		return err
	}
	if unique(c.Kind) {
		e.run.names[c.Name] = true
	}
	if opens(c.Kind) {
		c.run = &e.run
		e.run.open++
	}
	return nil
}

// room returns an error if the name of a call is taken or the run has too many open calls.
func (r *envRun) room(c *EnvCall) error {
	switch {
	case unique(c.Kind) && r.names[c.Name]:
		return abi.Errorf(abi.DuplicateName, "the name %q is used twice in this run; make it unique, for example with an index: %q",
			c.Name, c.Name+"-2")
	case opens(c.Kind) && r.open >= abi.MaxUnresolvedHandles:
		return abi.Errorf(abi.Limit, "the run waits for %d handles, the limit is %d", r.open, abi.MaxUnresolvedHandles)
	}
	return nil
}

// refusal converts an error, such as one of package abi, to the *StepError that a host would return.
func refusal(err error) error {
	if s, ok := errors.AsType[*StepError](err); ok {
		return s
	}
	e := &StepError{Code: abi.InvalidArgument.String(), Message: err.Error()}
	if a, ok := errors.AsType[*abi.Error](err); ok {
		e.Code, e.Message = a.Code.String(), a.Message
	}
	return e
}

// outcome records the outcome of a call and returns it.
func (e *Env) outcome(c *EnvCall, b []byte, err error) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.endLocked(c, b, err)
	return b, err
}

func (e *Env) endLocked(c *EnvCall, b []byte, err error) {
	if c.Code != "" || e.over || e.cut.by != nil || c.cut != e.cut { // the outcome comes too late
		return
	}
	if c.run != nil {
		c.run.open--
	}
	c.Ended, c.Code, c.Result = time.Since(e.started), codeOK, b
	if err == nil {
		return
	}
	c.Code = codeWithdrawn
	if s, ok := errors.AsType[*StepError](err); ok {
		c.Code, c.Message, c.Attempts = s.Code, s.Message, s.Attempts
	}
}
