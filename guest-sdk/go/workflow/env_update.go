//go:build !wasip1

package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
)

// envUpdates holds the update handlers and the taken updates of a run.
type envUpdates struct {
	set     *updateSet // of the iteration
	answers []envTaken // by handle, from 1
}

// envTaken is an update that the workflow has taken. answer is nil after it was answered.
type envTaken struct {
	name   string // of the signal
	answer chan envAnswer
}

type envAnswer struct {
	b   []byte
	err error
}

// ErrUpdateRefused is the error of Env.Update if the workflow does not accept the update.
var ErrUpdateRefused = errors.New("update refused")

// Update sends an update to the workflow under test, as Host.Update does, waits for its answer, and decodes the answer into
// out unless out is nil. It returns ErrUpdateRefused if the workflow does not accept the update or has ended.
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
	if s := registered.schemas[e.workflow]; s != nil {
		err = e.listedLocked("update", name, s.updates)
	}
	e.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUpdateRefused, err)
	}
	if err := checkPayload("the input of update", name, b); err != nil {
		return err
	}
	if _, err := answered(func() (any, error) { return nil, set.validate(name, b) }); err != nil {
		return fmt.Errorf("%w: %w", ErrUpdateRefused, asReceived(err))
	}
	c := make(chan envAnswer, 1)
	e.mu.Lock()
	if e.run.updates.set != set { // the iteration or run has ended
		e.mu.Unlock()
		return e.Update(ctx, name, input, out)
	}
	if err := e.run.roomForUpdate(name, len(b)); err != nil {
		e.mu.Unlock()
		return err
	}
	e.giveLocked(updatePrefix+name, envSignal{b, c})
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

// roomForUpdate returns an error if the run has too many unanswered updates, or too many pending signals.
func (r *envRun) roomForUpdate(name string, bytes int) error {
	n := 0
	for _, t := range r.updates.answers {
		if t.answer != nil {
			n++
		}
	}
	for of, queue := range r.signals {
		if strings.HasPrefix(of, updatePrefix) {
			n += len(queue)
		}
	}
	if n >= abi.MaxPendingUpdates {
		return abi.Errorf(abi.Limit, "the run has %d updates that it has not answered, the limit is %d", n, abi.MaxPendingUpdates)
	}
	return r.roomFor(updatePrefix+name, bytes)
}

// updatesOf returns the update handlers of the current iteration. Outside of a workflow it returns an empty set.
func updatesOf(ctx context.Context) *updateSet {
	e, err := enter(ctx)
	if err != nil {
		return &updateSet{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.run.updates.set
}

// updateWait waits for an update and returns its handle and input.
func updateWait(ctx context.Context, signal string) (h int64, b []byte, err error) {
	w, err := signalTake(ctx, signal, -1)
	if err != nil {
		return 0, nil, err
	}
	return w.update, w.payload, nil
}

func updateReply(ctx context.Context, h int64, b []byte, failed error) error {
	e, err := enter(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := cutLocked(ctx); err != nil {
		return err
	}
	name := e.run.updates.answers[h-1].name
	if failed == nil {
		c := &EnvCall{Kind: "update_reply", Name: name, Input: b}
		failed = e.makeLocked(ctx, c, func() error {
			return checkPayload("answer to update", strings.TrimPrefix(name, updatePrefix), b)
		})
		if failed == nil {
			e.endLocked(c, nil, nil)
		}
	}
	if failed != nil {
		r := reportOf(failed)
		c := &EnvCall{Kind: "update_reply", Name: name, Input: []byte(r.json())}
		_ = e.makeLocked(ctx, c, func() error { return nil })
		e.endLocked(c, nil, nil)
		c.Code, c.Message = codeFailed, r.Message
		b = nil
		failed = asReceived(failed)
	}
	e.run.updates.answer(h, envAnswer{b, failed})
	return nil
}

// codeFailed is the EnvCall.Code of an update_reply with an error.
const codeFailed = "FAILED"

// answer answers the update of a handle, unless it was answered before.
func (u *envUpdates) answer(h int64, a envAnswer) {
	if t := &u.answers[h-1]; t.answer != nil {
		t.answer <- a // it has room for one
		t.answer = nil
	}
}

// over fails the updates that an iteration has taken and not answered. If the run has ended, kept holds its pending signals:
// over also fails the updates among them and removes them from kept.
func (u *envUpdates) over(how string, kept map[string][]envSignal) {
	lost := envAnswer{err: fmt.Errorf("the run %s before it had answered the update", how)}
	for i := range u.answers {
		u.answer(int64(i+1), lost)
	}
	u.set = &updateSet{}
	for name, list := range kept {
		if !strings.HasPrefix(name, updatePrefix) {
			continue
		}
		for _, s := range list {
			s.answer <- lost
		}
		delete(kept, name)
	}
}

// listedLocked returns an error if the workflow lists its queries or updates and name is not among them. It returns nil for
// workflows of HandleChild, which list none.
func (e *Env) listedLocked(what, name string, list []string) error {
	if len(list) == 0 || slices.Contains(list, name) || e.workflows[e.workflow] != nil {
		return nil
	}
	return fmt.Errorf("workflow %q has no such %s, it has %q", e.workflow, what, list)
}

// asReceived returns an error as a host passes it on: with a message that is truncated if it is too long, and without bytes that
// are not UTF-8.
func asReceived(err error) error {
	message := string([]rune(reportOf(err).Message))
	same := func() bool {
		defer func() { _ = recover() }() // the Error method may panic
		return err.Error() == message
	}()
	if same {
		return err
	}
	return errors.New(message)
}
