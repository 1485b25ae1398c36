//go:build !wasip1

package workflow

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/wfhost/wfhost/abi"
)

// EnvCall is a call that a workflow has made in an Env, and what came of it. The journal of a run on a host has the same calls in
// the same order, with the same names, payloads and errors.
type EnvCall struct {
	// Kind is what a journal calls it: sleep, step (by Call), body (by Do), signal_wait, signal_send, hook, child, emit,
	// set_attribute, version, cancel_policy, continue_as_new or update_reply.
	Kind string
	// Name is that of the step, sleep, child, hook or signal, the topic of an output, the key of an attribute, the id of a marker.
	Name string
	// Target is the handler of a step, the workflow of a child, the run to which a signal is sent, and the token of a hook that
	// the workflow has chosen.
	Target string
	// RunID is the id of the run that a child is, for Env.Child.
	RunID string
	// Input is what the call hands over, as it is encoded: the input of a step, child or iteration, the payload of a signal or
	// output, the value of an attribute, the answer to an update.
	Input []byte
	// Options are those that were set, as JSON; empty if none were.
	Options string
	// Iteration is that of the run, from 0.
	Iteration uint32
	// At is when the call was made, since the run has started, and Ended when its outcome was there.
	At, Ended time.Duration
	// Attempts is how many attempts a step has made.
	Attempts int
	// Code is empty while the call waits. Then it is OK, WITHDRAWN if its context ended first, or the name of the error's code,
	// such as STEP_FAILED. Message is that of the error.
	Code, Message string
	// Refused says that the call was not accepted: it has an error of its own, and began nothing.
	Refused bool
	// Result is what the call has brought: the result of a step or child, the payload of a signal, the token of a hook, the index
	// of an output, the number of a marker or policy.
	Result []byte

	run *envRun // of its iteration
}

// Values of EnvCall.Code beside those of errors.
const (
	codeOK        = "OK"
	codeWithdrawn = "WITHDRAWN"
)

// Calls returns the calls that the workflow has made, in order, those of earlier iterations included.
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

// Steps returns the names of the steps, sleeps and children that were begun, in order.
func (e *Env) Steps() []string {
	var names []string
	for _, c := range e.Calls() {
		if unique(c.Kind) && !c.Refused {
			names = append(names, c.Name)
		}
	}
	return names
}

// unique reports whether the names of such calls are unique in an iteration.
func unique(kind string) bool {
	return slices.Contains([]string{"sleep", "step", "body", "child"}, kind)
}

// opens reports whether the outcome of such calls may come later.
func opens(kind string) bool {
	return unique(kind) || slices.Contains([]string{"signal_wait", "signal_send", "hook"}, kind)
}

// make records a call, and returns an error if check, or the state of the run, refuses it.
func (e *Env) make(ctx context.Context, c *EnvCall, check func() error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.makeLocked(ctx, c, check)
}

// makeLocked is make under the lock. A goroutine of an iteration that was cut meanwhile makes no call in the next one.
func (e *Env) makeLocked(ctx context.Context, c *EnvCall, check func() error) error {
	if err := cutLocked(ctx); err != nil {
		return err
	}
	c.Iteration, c.At = e.iteration, time.Since(e.started)
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

// room returns an error if the run may not make a call, whatever that says: its name is taken, or too much is open.
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

// refusal returns an error of package abi as the host hands it over.
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

// outcome records what came of a call, and returns that.
func (e *Env) outcome(c *EnvCall, b []byte, err error) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.endLocked(c, b, err)
	return b, err
}

func (e *Env) endLocked(c *EnvCall, b []byte, err error) {
	if c.Code != "" || e.over || e.cut.by != nil || c.Iteration != e.iteration { // nobody is told any more
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
