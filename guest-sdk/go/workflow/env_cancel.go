//go:build !wasip1

package workflow

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"time"
)

// Cancel cancels the run, as Host.Cancel does. A workflow that has called SetCancelPolicy with CooperativeCancel learns of it by
// its context, once. Any other ends with ErrCancelled in the call of this package in which it waits, or in its next one.
func (e *Env) Cancel() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cancelLocked()
}

func (e *Env) cancelLocked() {
	switch _, continues := errors.AsType[*continueError](e.cut.by); {
	case e.over, e.cancelled: // which is told once
	case continues: // it is for the next iteration
		e.cancels = true
	case e.run.policy == CooperativeCancel:
		e.cancelled = true
		e.cancel(ErrCancelled)
	default:
		e.cutLocked(ErrCancelled)
	}
}

// cutLocked ends the run where it is: at its next call, the goroutine of the workflow ends. Calls of its other goroutines have
// the reason as their error, so that what waits for these continues up to its next call.
func (e *Env) cutLocked(err error) {
	if e.cut.by != nil || e.over {
		return
	}
	e.cut.by = err
	close(e.cut.done)
	e.cancel(err)
	if _, continues := errors.AsType[*continueError](err); !continues {
		close(e.ended)
		e.runs.release(e)
	}
}

// envCut ends an iteration where it is.
type envCut struct {
	done chan struct{} // closed when it does
	by   error         // why; guarded by the Env's lock
}

func newCut() *envCut { return &envCut{done: make(chan struct{})} }

// cutKey is the key of an iteration's cut in its context: its goroutines may live when the next one has begun.
type cutKey struct{}

func (e *Env) cutOf(ctx context.Context) *envCut {
	if cut, _ := ctx.Value(cutKey{}).(*envCut); cut != nil {
		return cut
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cut
}

// cutLocked returns why the iteration to which a context belongs was cut, nil if it was not. The caller holds the Env's lock.
func cutLocked(ctx context.Context) error {
	if cut, _ := ctx.Value(cutKey{}).(*envCut); cut != nil {
		return cut.by
	}
	return nil
}

// cutRun is what a workflow panics with whose run was cut.
type cutRun struct{}

// stopIfCut ends the function of the workflow if the run was cut, and returns the reason in other goroutines.
func (e *Env) stopIfCut(ctx context.Context) error {
	cut := e.cutOf(ctx)
	e.mu.Lock()
	err := cut.by
	e.mu.Unlock()
	if err != nil && onStack(iterateName) {
		panic(cutRun{})
	}
	return err
}

// call calls the function of a workflow. A run that is cut meanwhile has the reason as its error.
func (e *Env) call(ctx context.Context, fn workflowFunc, input []byte) (b []byte, err error) {
	defer labelled(nil)() // a body may test a workflow
	defer func() {
		if v := recover(); v != nil {
			if _, cut := v.(cutRun); !cut {
				panic(v)
			}
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.cut.by != nil {
			b, err = nil, e.cut.by
		}
	}()
	return fn(ctx, input)
}

// pause waits for a time, or for the end of ctx.
func (e *Env) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-e.cutOf(ctx).done:
	case <-ctx.Done():
	}
	if err := e.stopIfCut(ctx); err != nil {
		return err
	}
	return context.Cause(ctx)
}

var iterateName = runtime.FuncForPC(reflect.ValueOf(iterate).Pointer()).Name()

// onStack reports whether a function is on the stack of this goroutine, before any of others.
func onStack(name string, before ...string) bool {
	pcs := make([]uintptr, 32)
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs)
		if n == 0 {
			return false
		}
		for frames := runtime.CallersFrames(pcs[:n]); ; {
			f, more := frames.Next()
			if f.Function == name {
				return true
			}
			for _, b := range before {
				if f.Function == b {
					return false
				}
			}
			if !more {
				break
			}
		}
	}
}
