//go:build !wasip1

package workflow

import (
	"context"
	"errors"
	"time"

	"github.com/wfhost/wfhost/abi"
)

// iterate runs all iterations of a workflow function. The context of each iteration ends with the iteration. On a host its
// goroutines end, too.
func iterate(ctx context.Context, fn workflowFunc, input []byte) ([]byte, error) {
	e, _ := ctx.Value(envKey{}).(*Env)
	for {
		own, cancel := context.WithCancelCause(ctx)
		own = context.WithValue(own, cutKey{}, e.iterates(cancel))
		b, err := e.call(own, fn, input)
		if err == nil && len(b) > abi.MaxPayloadBytes {
			b, err = nil, refusal(abi.Errorf(abi.TooLarge, "the result has %d bytes, the limit is %d", len(b), abi.MaxPayloadBytes))
		}
		next, again := errors.AsType[*continueError](err)
		e.end(again, err, func() { cancel(nil) })
		if !again {
			return b, err
		}
		input = next.input
	}
}

// iterates begins an iteration and returns its cut. cancel ends the iteration's context.
func (e *Env) iterates(cancel context.CancelCauseFunc) *envCut {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cancel, e.began = cancel, time.Now()
	if e.cancels {
		e.cancels = false
		e.cancelLocked()
	}
	return e.cut
}

// end ends an iteration. If again is false, it also ends the run. It fails open updates before it cancels the context:
// answers that handlers give because of the cancelled context do not count.
func (e *Env) end(again bool, err error, cancel context.CancelFunc) {
	e.mu.Lock()
	children := e.run.children
	defer e.endChildren(children) // after the lock is released
	defer e.mu.Unlock()
	defer cancel()
	if e.over { // the run was cut
		return
	}
	e.runs.release(e)
	e.run.children = map[int64]*envChild{}
	e.run.waits = map[string][]*envWait{}
	if !again { // the next iteration keeps the policy
		e.run.policy = FinalCancel
	}
	switch {
	case again:
		e.run.begins()
		e.cut = newCut()
		e.iteration++
		e.run.updates.over("continued as new", nil)
	default:
		e.over = true
		e.run.updates.over(e.endingLocked(err), e.run.signals)
	}
}

// begins resets the state of the previous iteration or run.
func (r *envRun) begins() {
	r.open, r.names, r.channels, r.markers = 0, map[string]bool{}, &channelSet{}, map[string]int{}
	r.queries, r.tokens = map[string]queryFunc{}, map[string]string{}
}

// endingLocked describes how the run ended. err is the error of the run.
func (e *Env) endingLocked(err error) string {
	switch cut := e.cut.by; {
	case err == nil:
		return "completed"
	case errors.Is(cut, errTerminated):
		return "was terminated"
	case errors.Is(cut, ErrCancelled), cut == nil && e.cancelled:
		return "was cancelled"
	}
	return "failed"
}
