//go:build !wasip1

package workflow

import (
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/abi"
)

// envUpdates are the updates of the run under test.
type envUpdates struct {
	set     *updateSet                  // of the iteration
	sent    map[string][]chan envAnswer // by signal: those that wait for their turn
	answers []chan envAnswer            // by handle, from 1; nil once it is answered
}

type envAnswer struct {
	b   []byte
	err error
}

// ErrUpdateRefused is the error of an Env's Update that the workflow does not accept.
var ErrUpdateRefused = errors.New("update refused")

// Update sends an update to the workflow under test, as Host.Update would, waits for its answer, and decodes that into out
// unless out is nil. One that the workflow does not accept is ErrUpdateRefused, and so is one after its end.
func (e *Env) Update(ctx context.Context, name string, input, out any) error {
	if err := abi.CheckUpdate(name); err != nil {
		return err
	}
	b, err := encode(input)
	if err != nil {
		return err
	}
	e.mu.Lock()
	set := e.run.updates.set
	e.mu.Unlock()
	if err := set.validate(name, b); err != nil {
		return fmt.Errorf("%w: %w", ErrUpdateRefused, err)
	}
	c := make(chan envAnswer, 1)
	e.mu.Lock()
	if e.run.updates.set != set { // the iteration has ended, or the run
		e.mu.Unlock()
		return e.Update(ctx, name, input, out)
	}
	e.run.updates.sent[updatePrefix+name] = append(e.run.updates.sent[updatePrefix+name], c)
	e.giveLocked(updatePrefix+name, b) // in the same order
	e.mu.Unlock()
	select {
	case a := <-c:
		if a.err != nil || out == nil {
			return a.err
		}
		return decode(a.b, out)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// updatesOf returns the handlers of the current iteration; ones of nobody outside of a workflow.
func updatesOf(ctx context.Context) *updateSet {
	e, err := enter(ctx)
	if err != nil {
		return &updateSet{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.run.updates.set
}

// updateWait takes an update with its sender at once: an iteration that ends fails the senders of those that were taken.
func updateWait(ctx context.Context, signal string) (h int64, b []byte, err error) {
	b, err = signalTake(ctx, signal, -1, func(r *envRun) {
		u := &r.updates
		u.answers = append(u.answers, u.sent[signal][0])
		u.sent[signal] = u.sent[signal][1:]
		h = int64(len(u.answers))
	})
	return h, b, err
}

func updateReply(ctx context.Context, h int64, b []byte, failed error) error {
	e, err := enter(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.run.updates.answer(h, envAnswer{b, failed})
	return nil
}

// answer answers the update of a handle, unless that was answered.
func (u *envUpdates) answer(h int64, a envAnswer) {
	if c := u.answers[h-1]; c != nil {
		c <- a // it has room for one
		u.answers[h-1] = nil
	}
}

// over fails the updates that an iteration has taken and not answered, and those that nobody has taken if the run has ended.
func (u *envUpdates) over(how string, ended bool) {
	lost := envAnswer{err: fmt.Errorf("the run %s before it had answered the update", how)}
	for i := range u.answers {
		u.answer(int64(i+1), lost)
	}
	u.set = &updateSet{}
	if !ended {
		return
	}
	for _, list := range u.sent {
		for _, c := range list {
			c <- lost
		}
	}
	clear(u.sent)
}
