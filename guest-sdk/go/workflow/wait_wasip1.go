package workflow

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
)

// A goroutine that waits while no other goroutine can continue polls directly: it gets the event with two calls to the
// host. The path through Go's scheduler, its poller and the reader goroutine needs many calls and takes about ten times as
// long. Both paths make the same calls of the workflow in the same order, so the journal is the same. The choice depends on
// linear memory alone, so a replay takes the same path as the live run.

// runnable is the runtime's metric for the number of runnable goroutines besides the caller.
var runnable = []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}

// quiet reports whether the program does nothing else while the calling goroutine waits for an event: no other goroutine is
// runnable or waits for the garbage collector, and no timer is pending that could start a goroutine or end a context.
func quiet() bool {
	if timersPending() || marking() {
		return false
	}
	return runtime.NumGoroutine() == st.goroutines || idle()
}

// idle reports whether no other goroutine is runnable, except the reader in readerTurn.
func idle() bool {
	metrics.Read(runnable)
	if runnable[0].Value.Kind() != metrics.KindUint64 {
		return false
	}
	n := runnable[0].Value.Uint64()
	return n == 0 || n == 1 && st.readerYields
}

// forever is the timeout of a poll without a time limit.
const forever = -1

// poll waits for the next event and returns it, or 0 after the timeout. The host may freeze the guest meanwhile.
func poll(timeoutNs int64) int64 {
	for {
		noEvent(timeoutNs)
		if e := hostWaitEvent(timeoutNs); e != -codeFreeze {
			return e
		}
		pause()
	}
}

// readEvents is the reader goroutine, which gets events while all other goroutines wait. It yields to runnable goroutines.
// When there are none, it polls until the first timer is due. While the garbage collector marks, it waits in the poller of
// Go's scheduler, which polls when there is nothing else to do: idle workers of the collector only run while no goroutine
// is runnable.
func readEvents() {
	conn, err := st.events.SyscallConn()
	if err != nil {
		panic(fmt.Sprint("workflow: the events descriptor: ", err))
	}
	for {
		for timeoutNs, ok := readerTurn(); ok; timeoutNs, ok = readerTurn() {
			if e := poll(timeoutNs); e != 0 {
				handle(int(e&7), e>>3)
			}
		}
		err = conn.Read(func(uintptr) bool {
			e := hostNextEvent()
			if e != 0 {
				handle(int(e&7), e>>3)
			}
			return e != 0
		})
		if err != nil {
			panic(fmt.Sprint("workflow: the events descriptor: ", err))
		}
	}
}

// readerTurn lets other goroutines run until all of them wait, and returns the time until the first timer is due, or
// forever. It returns false while the collector marks, and if the time of the first timer is unknown.
func readerTurn() (timeoutNs int64, ok bool) {
	for !marking() {
		st.readerYields = true
		runtime.Gosched() // also fires due timers
		st.readerYields = false
		switch {
		case marking() || !idle():
		case !timersPending():
			return forever, true
		default:
			at := firstTimer()
			if at == 0 {
				return 0, false
			}
			timeoutNs = at - nanotime()
			if timeoutNs > 0 {
				return timeoutNs, true
			}
		}
	}
	return 0, false
}

// pollFor polls until the handle is resolved. It returns false when another goroutine or timer needs to run: the wait must
// then continue through Go's scheduler.
func pollFor(ctx context.Context, h int64, body func(Step) ([]byte, error)) bool {
	for quiet() {
		e := poll(forever)
		kind := int(e & 7)
		switch {
		case e == h<<3|eventResolved:
			return true
		case e == h<<3|eventRunBody:
			runBody(ctx, body)
		case e == 0:
			return false
		case kind == eventResolved || kind == eventRunBody:
			handle(kind, e>>3)
			if waiterOf(e>>3) != nil {
				return false
			}
		default: // as if the reader goroutine had got it: handled when this goroutine waits
			go handle(kind, e>>3)
			return false
		}
	}
	return false
}

// waiter is the wait of a goroutine for a handle. Its channel receives the kind of the handle's event, or eventCancel when
// ctx has ended. Several goroutines may wait for a child, so its channel is closed when the handle is resolved or
// withdrawn.
type waiter struct {
	c    chan int
	over bool // c is closed
	root bool // a goroutine waits with the context of the run; handle sends it eventCancel when the context ends
}

// newWaiter registers a waiter for a handle. It may reuse an idle waiter.
func newWaiter(h int64) *waiter {
	if int(h) >= len(st.waiters) {
		grown := make([]*waiter, 2*h+16)
		copy(grown, st.waiters)
		st.waiters = grown
	}
	w := &waiter{}
	if n := len(st.idle); n > 0 {
		w, st.idle = st.idle[n-1], st.idle[:n-1]
	} else {
		w.c = make(chan int, 2)
	}
	st.waiters[h] = w
	return w
}

// waiterOf returns the waiter of a handle, nil if it has none.
func waiterOf(h int64) *waiter {
	if h < int64(len(st.waiters)) {
		return st.waiters[h]
	}
	return nil
}

// park waits through Go's scheduler and returns the kind of event. Most waits have the context of the run, and need no
// select.
func (w *waiter) park(ctx context.Context) (kind int) {
	done := ctx.Done()
	if done == st.done {
		w.root = true
		kind = <-w.c
		w.root = false
		return kind
	}
	select {
	case kind = <-w.c:
		return kind
	case <-done:
		return eventCancel
	}
}

// wait blocks until the handle is resolved. When ctx ends, it withdraws the handle and returns the cause. A negative h is
// the error of the call that began the wait.
func wait(ctx context.Context, h int64, body func(Step) ([]byte, error)) error {
	switch {
	case h < 0:
		return lastError()
	case pollFor(ctx, h, body):
		return nil
	}
	w := newWaiter(h)
	err := waitOn(ctx, h, w, body)
	for len(w.c) > 0 {
		<-w.c
	}
	st.idle = append(st.idle, w)
	return err
}

// waitOn is wait through Go's scheduler. The waiter may have received the event already.
func waitOn(ctx context.Context, h int64, w *waiter, body func(Step) ([]byte, error)) error {
	switch w.park(ctx) {
	case eventRunBody:
		runBody(ctx, body)
	case eventCancel:
		if err := gate(); err != nil { // the context may end by a timer of the workflow while a body runs
			return err
		}
		if waiterOf(h) == nil { // another goroutine got the event or withdrew the handle
			return nil
		}
		switch hostCancel(h) {
		case 0:
			st.waiters[h] = nil
			return context.Cause(ctx)
		case 2: // an attempt has begun: wait for its outcome
			if <-w.c == eventRunBody {
				runBody(ctx, body)
			}
		}
	}
	st.waiters[h] = nil
	return nil
}

// waitAgain is wait for the handle of a child. The event may have come before. waitAgain wakes the other goroutines that
// wait for the child.
func waitAgain(ctx context.Context, h int64) (err error) {
	w := waiterOf(h)
	switch {
	case w == nil: // the handle is resolved or withdrawn
		return nil
	case len(w.c) == 0 && pollFor(ctx, h, nil):
		st.waiters[h] = nil
	default:
		err = waitOn(ctx, h, w, nil)
		if waiterOf(h) != nil { // the call is not allowed here: the handle is still open
			return err
		}
	}
	if !w.over {
		w.over = true
		close(w.c)
	}
	return err
}

// waitResult waits for a handle and returns its outcome.
func waitResult(ctx context.Context, h int64, body func(Step) ([]byte, error)) ([]byte, error) {
	if err := wait(ctx, h, body); err != nil {
		return nil, err
	}
	b, err := result(h)
	if err != nil {
		err = withCause(ctx, err)
	}
	return b, err
}
