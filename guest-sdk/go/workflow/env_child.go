//go:build !wasip1

package workflow

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/wfhost/wfhost/abi"
)

// envRuns are the runs of a test by their ids: the one under test, its children, and theirs.
type envRuns struct {
	mu   sync.Mutex // guards byID; taken behind an Env's lock, and no lock is taken behind it
	byID map[string]*Env
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
	if e.ended {
		return errEnded
	}
	e.giveLocked(name, b)
	return nil
}

// sendTo delivers a signal to a run of the test. Other runs are taken to be there.
func (e *Env) sendTo(runID, name string, payload []byte) error {
	to := e.runs.get(runID)
	if to == nil {
		return nil
	}
	if err := to.accept(name, payload); err != nil {
		return &StepError{Code: abi.Conflict.String(), Name: name, Message: fmt.Sprintf("run %q takes no signals: %v", runID, err)}
	}
	return nil
}

// newChild returns the environment of a child, which has the handlers of its parent.
func (e *Env) newChild(id string) *Env {
	child := NewEnv()
	child.id, child.parent, child.runs = id, e, e.runs
	child.handlers, child.workflows = e.handlers, e.workflows
	return child
}

func childStart(ctx context.Context, name, workflow string, input []byte, opts string) (int64, string, error) {
	o, err := abi.ParseChildOptions([]byte(opts))
	if err != nil {
		return 0, "", refusal(name, err)
	}
	e, err := begin(ctx, "child name", name)
	if err != nil {
		return 0, "", err
	}
	if o.ID == "" {
		o.ID = e.id + "." + name
		if e.iteration > 0 { // those of the iterations before may be there still
			o.ID = fmt.Sprintf("%s.%d.%s", e.id, e.iteration, name)
		}
	}
	child := e.newChild(o.ID)
	e.mu.Lock()
	h := int64(len(e.run.children) + 1)
	c := &envChild{done: make(chan struct{})}
	e.run.children[h] = c
	fn := e.workflows[workflow]
	e.mu.Unlock()
	if !e.runs.add(o.ID, child) {
		c.refused = &StepError{Code: "CONFLICT", Name: name,
			Message: fmt.Sprintf("child %q was not started: run %q exists", name, o.ID)}
		close(c.done)
		return h, o.ID, nil
	}
	if fn == nil {
		fn = registered.workflows[workflow]
	}
	go func() {
		defer close(c.done)
		if fn == nil {
			c.err = fmt.Errorf("no workflow %q: register it, or stand in for it by HandleChild", workflow)
			return
		}
		c.b, c.err = iterate(context.WithValue(ctx, envKey{}, child), fn, input)
	}()
	return h, o.ID, nil
}

func childWait(ctx context.Context, h int64) ([]byte, error) {
	e, err := enter(ctx)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	c := e.run.children[h]
	e.mu.Unlock()
	select {
	case <-c.done:
		if c.refused != nil {
			return nil, c.refused
		}
		if c.err != nil {
			return nil, &StepError{Code: "CHILD_FAILED", Kind: "failed", Message: c.err.Error()}
		}
		return c.b, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
