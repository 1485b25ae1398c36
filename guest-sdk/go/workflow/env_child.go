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

// envRuns are the runs of a test by their ids: the one under test, its children, and theirs.
type envRuns struct {
	mu     sync.Mutex // guards the others; taken behind an Env's lock, and no lock is taken behind it
	byID   map[string]*Env
	tokens map[string]*Env // live runs, by the tokens of their hooks
}

// claim gives a token to a run, unless another one holds it, which is returned.
func (r *envRuns) claim(token string, e *Env) (holder *Env) {
	r.mu.Lock()
	defer r.mu.Unlock()
	holder = r.tokens[token]
	if holder == nil {
		r.tokens[token] = e
	}
	return holder
}

// release gives up the tokens of a run.
func (r *envRuns) release(e *Env) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.tokens, func(_ string, holder *Env) bool { return holder == e })
}

// forget keeps only the run under test, for the next run.
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

// add adds a run, unless the id is taken.
func (r *envRuns) add(id string, e *Env) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[id] != nil {
		return false
	}
	r.byID[id] = e
	return true
}

// HandleChild stands in for a workflow that workflows start as a child by this name, registered or not. fn is a workflow
// itself: it may sleep and receive signals. Its error fails the child.
func HandleChild[In, Out any](e *Env, name string, fn func(ctx context.Context, in In) (Out, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.workflows[name] = erase(fn)
}

// Child returns the environment of a child that was started, or of a child of that, by its run id: to look at its Steps and
// Sent, to send it signals and updates, and to Ask it. It returns nil if no such run was started. The default id of a child is
// "test." and the name with which it was started; behind ContinueAsNew "test.1." and the name, and so on.
func (e *Env) Child(id string) *Env {
	if id == e.id {
		return nil
	}
	return e.runs.get(id)
}

// errEnded is the reason of a signal that no run takes any more.
var errEnded = errors.New("it has ended")

// accept takes a signal of another run.
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

// sendTo delivers a signal to a run of the test. Other runs are taken to be there unless they are absent.
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

// envChild is a child of the run, as the run sees it.
type envChild struct {
	env  *Env
	call *EnvCall
	end  string // what becomes of it if the parent ends
	done chan struct{}
	b    []byte
	err  error

	withdrawn chan struct{} // closed when a wait for it has ended early, with the parent's lock
}

// newChild returns the environment of a child, which has the handlers of its parent.
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
		if e.iteration > 0 { // those of the iterations before may be there still
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

// childRoom returns an error if the run stands too deep, or has too many children that live. The caller holds the lock.
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

// run runs a child to its end, which it tells the parent.
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
		status, r = ErrCancelled.Error(), report{} // a host tells the errors of failed runs only
	}
	k.env.mu.Unlock()
	k.resolve(e, nil, k.failure(status, received(r)))
}

// playOrEnd is play until the child is ended where it is. Its function may wait without a call of the workflow, as in
// time.Sleep, and then learns of its end later.
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

// play runs the workflow of a child. A panic fails it, as on a host.
func (k *envChild) play(fn workflowFunc, input []byte) (b []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError{v, debug.Stack()}
			k.env.end(false, err, func() {})
		}
	}()
	return iterate(context.WithValue(k.env.base, envKey{}, k.env), fn, input)
}

// failure is the error with which a child's wait ends. r is what the child reports.
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

// errTerminated is why a run was cut that its parent has terminated.
var errTerminated = errors.New("terminated")

// errDeadline is why a run was cut whose time was over.
var errDeadline = errors.New("the run did not end within the time that its start gave it")

// errTestOver is why runs are cut that live when the one under test has ended.
var errTestOver = errors.New("the test is over")

// cut ends all runs that live.
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

// endChildren does with the children of an iteration that has ended what their options say.
func (e *Env) endChildren(children map[int64]*envChild) {
	for _, k := range children {
		k.leave()
	}
}

// leave ends a child for which the parent does not wait any more, unless its options say otherwise.
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

// deadline ends a run whose time is over. One with the cooperative policy is told, and has some time to clean up.
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
	if k == nil { // of an iteration that has ended
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

// waited returns what a wait for a child has brought. If neither the child nor another wait has ended, ctx has, and the child is
// withdrawn.
func (k *envChild) waited(ctx context.Context, e *Env) ([]byte, error) {
	e.mu.Lock()
	switch {
	case isClosed(k.withdrawn):
		e.mu.Unlock()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &StepError{Code: abi.Cancelled.String(), Name: k.call.Name, Message: "this handle was withdrawn"}
	case isClosed(k.done):
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
