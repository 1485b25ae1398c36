package workflow

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
)

// A goroutine that waits while nothing else of the program can continue polls by itself: it has the event in two calls of
// the host, where the way through Go's scheduler, its poller and the reader goroutine takes many and is some ten times
// as long. Both ways make the same calls in the same order, so that a journal does not tell which one was gone; and
// which one it is depends on linear memory alone, so that a replay goes the way of the live run.

// runnable asks the runtime how many goroutines could run, besides the calling one.
var runnable = []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}

// quiet reports whether nothing of this program can happen while the calling goroutine waits for the workflow: no other
// goroutine can run or waits for the garbage collector, and there is no timer that would start one or end a context.
func quiet() bool {
	if timersPending() || marking() {
		return false
	}
	return runtime.NumGoroutine() == st.goroutines || idle()
}

// idle reports whether no other goroutine can run, but the reader that waits for this.
func idle() bool {
	metrics.Read(runnable)
	if runnable[0].Value.Kind() != metrics.KindUint64 {
		return false
	}
	n := runnable[0].Value.Uint64()
	return n == 0 || n == 1 && st.readerYields
}

// forever is the timeout of a poll that has none.
const forever = -1

// poll waits for the next event, and is 0 if the time comes first. Meanwhile the guest may be frozen.
func poll(timeoutNs int64) int64 {
	for {
		noEvent(timeoutNs)
		if e := hostWaitEvent(timeoutNs); e != -codeFreeze {
			return e
		}
		pause()
	}
}

// readEvents is the goroutine that gets events while all others wait: it stays behind those that can run, and polls as
// soon as there are none, for as long as it takes until the first timer is due. While the garbage collector is at work
// it waits in the poller of Go's scheduler, which then polls when there is nothing else to do: the collector's workers
// run in place of a program that waits, and so not beside a goroutine that can run.
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

// readerTurn lets other goroutines run until all of them wait, and tells how long they will if no event comes. It is false
// while the collector is at work, and if it cannot be known when the first timer is due.
func readerTurn() (timeoutNs int64, ok bool) {
	for !marking() {
		st.readerYields = true
		runtime.Gosched() // fires timers that are due, too
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

// pollFor polls until the handle is resolved, and is false if the wait has to continue by way of Go's scheduler: as soon as
// there is something else to do.
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
		default: // as if the reader goroutine had got it: once this one waits
			go handle(kind, e>>3)
			return false
		}
	}
	return false
}

// waiter is where a goroutine waits for a handle. Its channel takes the kind of the handle's event, or eventCancel when
// ctx has ended. That of a child is closed when the handle is resolved or withdrawn: several goroutines may wait for a child.
type waiter struct {
	c    chan int
	over bool // c is closed
	root bool // somebody waits, with the context of the run, whose end handle announces
}

// newWaiter makes the waiter of a handle.
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

// park waits by way of Go's scheduler. Most waits have the context of the run, and need no select.
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

// wait blocks the goroutine until the handle is resolved, or withdraws it when ctx ends.
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

// waitOn is wait by way of Go's scheduler, with a waiter that the event may have come to already.
func waitOn(ctx context.Context, h int64, w *waiter, body func(Step) ([]byte, error)) error {
	switch w.park(ctx) {
	case eventRunBody:
		runBody(ctx, body)
	case eventCancel:
		if err := gate(); err != nil { // a timer of the workflow that comes due while a body runs
			return err
		}
		if waiterOf(h) == nil { // another goroutine has been told, or has withdrawn it
			return nil
		}
		switch hostCancel(h) {
		case 0:
			st.waiters[h] = nil
			return context.Cause(ctx)
		case 2: // an attempt has begun: its outcome is waited for
			if <-w.c == eventRunBody {
				runBody(ctx, body)
			}
		}
	}
	st.waiters[h] = nil
	return nil
}

// waitAgain is wait for the handle of a child, whose event may have come before. It wakes the other goroutines that wait for it.
func waitAgain(ctx context.Context, h int64) (err error) {
	w := waiterOf(h)
	switch {
	case w == nil: // it has been told
		return nil
	case len(w.c) == 0 && pollFor(ctx, h, nil):
		st.waiters[h] = nil
	default:
		err = waitOn(ctx, h, w, nil)
		if waiterOf(h) != nil { // the call is not allowed here
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
