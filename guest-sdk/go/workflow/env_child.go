//go:build !wasip1

package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/wfhost/wfhost/abi"
)

// envRuns holds the runs of a test by id: the run under test and all its descendants.
type envRuns struct {
	mu     sync.Mutex // guards the fields below; taken after an Env's lock, and no lock is taken while it is held
	byID   map[string]*Env
	tokens map[string]*Env // live runs, by the tokens of their hooks
}

// claim gives a token to a run. If a run holds the token already, claim returns that run instead.
func (r *envRuns) claim(token string, e *Env) (holder *Env) {
	r.mu.Lock()
	defer r.mu.Unlock()
	holder = r.tokens[token]
	if holder == nil {
		r.tokens[token] = e
	}
	return holder
}

// release frees the tokens of a run.
func (r *envRuns) release(e *Env) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.tokens, func(_ string, holder *Env) bool { return holder == e })
}

// forget removes all runs except the run under test, before its next run.
func (r *envRuns) forget(but *Env) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID, r.tokens = map[string]*Env{but.id: but}, map[string]*Env{}
}

func (r *envRuns) get(id string) *Env {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// add adds a run. It returns false if the id is taken.
func (r *envRuns) add(id string, e *Env) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[id] != nil {
		return false
	}
	r.byID[id] = e
	return true
}

// HandleChild sets the function that runs when a workflow starts a child with this workflow name, registered or not. fn is a
// workflow: it may sleep and receive signals. Its error fails the child.
func HandleChild[In, Out any](e *Env, name string, fn func(ctx context.Context, in In) (Out, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.workflows[name] = erase(fn)
}

// Child returns the environment of a child or other descendant by its run id. Use it to read its Steps and Sent, to send
// signals and updates, and to Ask. It returns nil if no such run was started. The default id of a child is the parent's id,
// "." and the name of the call ("test.NAME"). After ContinueAsNew, the number of the iteration is in between
// ("test.1.NAME").
func (e *Env) Child(id string) *Env {
	if id == e.id {
		return nil
	}
	return e.runs.get(id)
}

// errEnded is the error for a signal to a run that has ended.
var errEnded = errors.New("it has ended")

// accept accepts a signal from another run.
func (e *Env) accept(name string, b []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return errEnded
	}
	if err := e.run.roomFor(name, len(b)); err != nil {
		return refusal(err)
	}
	e.giveLocked(name, envSignal{payload: b})
	return nil
}

// sendTo delivers a signal to a run of the test. It returns an error if the receiving run is absent or does not accept the
// signal. Signals to unknown runs succeed.
func (e *Env) sendTo(runID, name string, payload []byte, absent bool) error {
	to := e.runs.get(runID)
	switch {
	case absent:
		return &StepError{Code: abi.Conflict.String(), Message: fmt.Sprintf("there is no run %q", runID)}
	case to == nil:
		return nil
	}
	switch err := to.accept(name, payload); {
	case errors.Is(err, ErrLimit):
		return err
	case err != nil:
		return &StepError{Code: abi.Conflict.String(), Message: fmt.Sprintf("run %q takes no signals: %v", runID, err)}
	}
	return nil
}

// envChild is a child as its parent sees it.
type envChild struct {
	env  *Env
	call *EnvCall
	end  string // the EndPolicy
	done chan struct{}
	b    []byte
	err  error

	withdrawn chan struct{} // closed, under the parent's lock, when a wait for it ends early
}

// newChild returns the environment of a child. It shares the handlers of its parent.
func (e *Env) newChild(id, workflow string, o *abi.ChildOptions) *Env {
	child := NewEnv()
	child.id, child.workflow, child.parent, child.runs, child.depth = id, workflow, e, e.runs, e.depth+1
	child.handlers, child.workflows, child.base = e.handlers, e.workflows, e.base
	child.run.absent = e.run.absent
	child.memo = o.Memo
	if o.Attributes != nil {
		child.run.attributes = maps.Clone(o.Attributes)
	}
	return child
}

func childStart(ctx context.Context, name, workflow string, input []byte, opts string) (int64, string, error) {
	var o abi.ChildOptions
	c := &EnvCall{Kind: "child", Name: name, Target: workflow, Input: input, Options: opts}
	e, err := begin(ctx, c, func(e *Env) (err error) {
		err = cmp.Or(abi.CheckName("child name", name), abi.CheckWorkflow(workflow), checkPayload("input of child", name, input))
		if err != nil {
			return err
		}
		o, err = abi.ParseChildOptions([]byte(opts))
		if err != nil {
			return err
		}
		return cmp.Or(o.Check(name), e.childRoom())
	})
	if err != nil {
		return 0, "", err
	}
	e.mu.Lock()
	if o.ID == "" {
		o.ID = e.id + "." + name
		if e.iteration > 0 { // children of earlier iterations may still exist
			o.ID = fmt.Sprintf("%s.%d.%s", e.id, e.iteration, name)
		}
	}
	c.RunID = o.ID
	child := e.newChild(o.ID, workflow, &o)
	e.children++
	h, k := e.children, &envChild{env: child, call: c, end: o.OnEnd, done: make(chan struct{}), withdrawn: make(chan struct{})}
	e.run.children[h] = k
	fn := e.workflows[workflow]
	e.mu.Unlock()
	if fn == nil {
		fn = registered.workflows[workflow]
	}
	switch {
	case !e.runs.add(o.ID, child):
		k.resolve(e, nil, &StepError{Code: abi.Conflict.String(), Name: name,
			Message: fmt.Sprintf("child %q was not started: run %q: run exists", name, o.ID)})
	case fn == nil:
		none := fmt.Sprintf("workflow %q: not found in this test: register it, or stand in for it by HandleChild", workflow)
		k.resolve(e, nil, k.failure("failed", report{Message: none}))
	default:
		go k.run(e, fn, input, o.TimeoutMs)
	}
	return h, o.ID, nil
}

// childRoom returns an error if the run is nested too deeply or has too many live children. The caller holds the lock.
func (e *Env) childRoom() error {
	if e.depth >= abi.MaxChildDepth {
		return abi.Errorf(abi.Limit, "this run stands %d runs below the first one, the limit is %d", e.depth, abi.MaxChildDepth)
	}
	live := 0
	for _, k := range e.run.children {
		if k.call.Code == "" {
			live++
		}
	}
	if limit := abi.LiveChildren(abi.MaxLiveChildren, e.depth); live >= limit {
		return abi.Errorf(abi.Limit, "the run has %d children that have not ended, the limit for one that stands %d runs below the "+
			"first one is %d", live, e.depth, limit)
	}
	return nil
}

// run runs a child to its end and reports the outcome to the parent e.
func (k *envChild) run(e *Env, fn workflowFunc, input []byte, timeoutMs int64) {
	if timeoutMs > 0 {
		t := time.AfterFunc(abi.Duration(timeoutMs), k.env.deadline)
		defer t.Stop()
	}
	b, err := k.playOrEnd(fn, input)
	k.env.mu.Lock()
	if k.env.grace != nil {
		k.env.grace.Stop()
	}
	k.env.mu.Unlock()
	if err == nil {
		k.resolve(e, b, nil)
		return
	}
	r, status := reportOf(err), "failed"
	if p, ok := errors.AsType[panicError](err); ok {
		r = panicReport(p.v, p.stack)
	}
	k.env.mu.Lock()
	switch cut := k.env.cut.by; {
	case errors.Is(cut, errTerminated), errors.Is(cut, ErrCancelled):
		status, r = cut.Error(), report{}
	case errors.Is(cut, errDeadline):
		r = report{Code: abi.Timeout.String(), Kind: abi.KindTimeout, Message: r.Message}
	case k.env.cancelled:
		status, r = ErrCancelled.Error(), report{} // a host reports the errors of failed runs only
	}
	k.env.mu.Unlock()
	k.resolve(e, nil, k.failure(status, received(r)))
}

// playOrEnd runs play, but returns as soon as the child is ended from outside (see cut). The function may then still wait outside
// of calls, for example in time.Sleep. It ends at its next call.
func (k *envChild) playOrEnd(fn workflowFunc, input []byte) ([]byte, error) {
	type played struct {
		b   []byte
		err error
	}
	c := make(chan played, 1)
	go func() {
		b, err := k.play(fn, input)
		c <- played{b, err}
	}()
	select {
	case p := <-c:
		return p.b, p.err
	case <-k.env.ended:
	}
	k.env.mu.Lock()
	err := k.env.cut.by
	k.env.mu.Unlock()
	k.env.end(false, err, func() {})
	return nil, err
}

// play runs the workflow of a child. A panic fails the child, as on a host.
func (k *envChild) play(fn workflowFunc, input []byte) (b []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError{v, debug.Stack()}
			k.env.end(false, err, func() {})
		}
	}()
	return iterate(context.WithValue(k.env.base, envKey{}, k.env), fn, input)
}

// failure returns the error for a wait for the child. r is the child's report.
func (k *envChild) failure(status string, r report) *StepError {
	text := fmt.Sprintf("child %q (run %s) %s", k.call.Name, k.env.id, status)
	if r.Message != "" {
		text += ": " + r.Message
	}
	failed := &StepError{Code: abi.ChildFailed.String(), Name: k.call.Name, Kind: status, Type: r.Type, Message: text}
	if r != (report{}) {
		failed.Details = asDecoded(r)
	}
	return failed
}

func (k *envChild) resolve(e *Env, b []byte, err error) {
	k.b, k.err = b, err
	_, _ = e.outcome(k.call, b, err)
	close(k.done)
}

// errTerminated is the reason for cutting a child that its parent has terminated.
var errTerminated = errors.New("terminated")

// errDeadline is the reason for cutting a run whose timeout has passed.
var errDeadline = errors.New("the run did not end within the time that its start gave it")

// errTestOver is the reason for cutting live runs after the run under test has ended.
var errTestOver = errors.New("the test is over")

// cut cuts all live runs.
func (r *envRuns) cut() {
	r.mu.Lock()
	all := slices.Collect(maps.Values(r.byID))
	r.mu.Unlock()
	for _, e := range all {
		e.mu.Lock()
		e.cutLocked(errTestOver)
		e.mu.Unlock()
	}
}

// endChildren applies the EndPolicy of each child after an iteration has ended.
func (e *Env) endChildren(children map[int64]*envChild) {
	for _, k := range children {
		k.leave()
	}
}

// leave applies the child's EndPolicy: the parent has ended or does not wait for it any more.
func (k *envChild) leave() {
	switch k.end {
	case abi.OnEndAbandon:
	case abi.OnEndTerminate:
		k.env.mu.Lock()
		defer k.env.mu.Unlock()
		k.env.cutLocked(errTerminated)
	default:
		k.env.Cancel()
	}
}

// deadline ends a run whose timeout has passed. With the cooperative policy, the run's context is cancelled and the run may
// clean up for abi.CancelGraceMs.
func (e *Env) deadline() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.run.policy != CooperativeCancel {
		e.cutLocked(errDeadline)
		return
	}
	if !e.cancelled {
		e.cancelled = true
		e.cancel(ErrCancelled)
	}
	e.grace = time.AfterFunc(abi.Duration(abi.CancelGraceMs), func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.cutLocked(errDeadline)
	})
}

func childWait(ctx context.Context, h int64) ([]byte, error) {
	e, err := ready(ctx)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	k := e.run.children[h]
	e.mu.Unlock()
	if k == nil { // a child of an earlier iteration
		return nil, context.Cause(ctx)
	}
	select {
	case <-k.done:
	case <-k.withdrawn:
	case <-e.cutOf(ctx).done:
	case <-ctx.Done():
	}
	if err := e.stopIfCut(ctx); err != nil {
		return nil, err
	}
	return k.waited(ctx, e)
}

// waited returns the outcome of a wait for a child. If the child has neither ended nor been withdrawn by another wait, then
// ctx has ended, and waited withdraws the child.
func (k *envChild) waited(ctx context.Context, e *Env) ([]byte, error) {
	e.mu.Lock()
	late := false
	if until, ok := ctx.Deadline(); ok && !isClosed(k.withdrawn) && isClosed(k.done) && k.call.Ended == time.Since(e.started) {
		late = !until.After(time.Now()) // a timeout comes before anything else at its instant
	}
	if late {
		e.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond): // the context does not end at its deadline
			late = false
		}
		e.mu.Lock()
	}
	switch {
	case isClosed(k.withdrawn):
		e.mu.Unlock()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &StepError{Code: abi.Cancelled.String(), Name: k.call.Name, Message: "this handle was withdrawn"}
	case isClosed(k.done) && !late:
		e.mu.Unlock()
		return k.b, k.err
	}
	close(k.withdrawn)
	err := context.Cause(ctx)
	e.endLocked(k.call, nil, err)
	e.mu.Unlock()
	k.leave()
	return nil, err
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
