//go:build !wasip1

package workflow

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"time"
)

// Cancel cancels the run, as Host.Cancel does. If the workflow has called SetCancelPolicy with CooperativeCancel, its context
// is cancelled, once. Otherwise the run ends with ErrCancelled, in its current or next call of this package.
func (e *Env) Cancel() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cancelLocked()
}

func (e *Env) cancelLocked() {
	switch _, continues := errors.AsType[*continueError](e.cut.by); {
	case e.over, e.cancelled: // a cooperative cancel is delivered once
	case continues: // cancel the next iteration
		e.cancels = true
	case e.run.policy == CooperativeCancel:
		e.cancelled = true
		e.cancel(ErrCancelled)
	default:
		e.cutLocked(ErrCancelled)
	}
}

// cutLocked ends the run where it is: the workflow's goroutine ends at its next call. Calls of other goroutines return err,
// so that a workflow that waits for them continues to its next call. The caller holds the lock.
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
	done chan struct{} // closed when the iteration is cut
	by   error         // the reason; guarded by the Env's lock
}

func newCut() *envCut { return &envCut{done: make(chan struct{})} }

// cutKey is the context key of an iteration's cut. Goroutines of the iteration may still live in the next iteration.
type cutKey struct{}

func (e *Env) cutOf(ctx context.Context) *envCut {
	if cut, _ := ctx.Value(cutKey{}).(*envCut); cut != nil {
		return cut
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cut
}

// cutLocked returns the reason why a context's iteration was cut, nil if it was not. The caller holds the Env's lock.
func cutLocked(ctx context.Context) error {
	if cut, _ := ctx.Value(cutKey{}).(*envCut); cut != nil {
		return cut.by
	}
	return nil
}

// cutRun is the panic that ends the workflow's goroutine when the run was cut.
type cutRun struct{}

// stopIfCut checks whether the iteration was cut. If so, it panics in the workflow's goroutine, and returns the reason in
// other goroutines.
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

// call calls a workflow function. If the run is cut meanwhile, call returns the reason.
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

// pause waits for d. It returns an error if ctx ends or the run is cut first.
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

// onStack reports whether a function is on the stack of this goroutine, with none of the functions in before closer to the
// top.
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
