//go:build !wasip1

package workflow

import (
	"fmt"
	"runtime/debug"
	"unsafe"
)

// Ask sends a query to the workflow under test, and decodes its answer into out unless out is nil.
func (e *Env) Ask(name string, input, out any) error {
	b, err := encode(input)
	if err != nil {
		return err
	}
	e.mu.Lock()
	fn := e.run.queries[name]
	err = e.listedLocked("query", name, registered.queries[e.workflow])
	e.mu.Unlock()
	if err != nil {
		return err
	}
	if fn == nil {
		return fmt.Errorf("the workflow does not offer query %s", name)
	}
	if err := checkPayload("the input of query", name, b); err != nil {
		return err
	}
	b, err = answered(func() ([]byte, error) { return fn(b) })
	if err != nil {
		return asReceived(err)
	}
	if err := checkPayload("the answer to query", name, b); err != nil || out == nil {
		return err
	}
	return decode(b, out)
}

// answered calls the function of a query or the validator of an update. Workflow calls in it return ErrNotHere. A panic becomes
// an error, since a panic on a host ends only the instance that runs the function.
//
//go:noinline
func answered[T any](fn func() (T, error)) (_ T, err error) {
	defer labelled(unsafe.Pointer(&bodyLabel))()
	defer func() {
		if v := recover(); v != nil {
			err = panicError{v, debug.Stack()}
		}
	}()
	return fn()
}
