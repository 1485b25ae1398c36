package workflow

import (
	"context"
	"runtime"
	"runtime/metrics"
	"unsafe"
)

// A goroutine that waits while nothing else of the program can go on polls by itself: it has the event in two calls of
// the host, where the way through Go's scheduler, its poller and the reader goroutine takes many and is some ten times
// as long. Both ways make the same calls in the same order, so that a journal does not tell which one was gone; and
// which one it is depends on linear memory alone, so that a replay goes the way of the live run.

// poller holds what poll_oneoff reads and writes: a subscription to descriptor 3, and an event.
var poller struct {
	subscription [6]uint64
	event        [4]uint64
	n            uint32
}

// newPoller fills poller's subscription.
func newPoller() {
	const eventtypeFdRead = 1
	poller.subscription[1] = eventtypeFdRead
	poller.subscription[2] = eventsFD
}

// runnable asks the runtime how many goroutines could run, besides the calling one.
var runnable = []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}

// quiet tells whether nothing of this program can happen while the calling goroutine waits: no other goroutine can
// run, and there is no timer that would start one or end a context.
func quiet() bool {
	if timersPending() {
		return false
	}
	if runtime.NumGoroutine() == st.goroutines {
		return true
	}
	metrics.Read(runnable)
	return runnable[0].Value.Kind() == metrics.KindUint64 && runnable[0].Value.Uint64() == 0
}

// poll waits for the next event.
func poll() int64 {
	if hostPoll(unsafe.Pointer(&poller.subscription), unsafe.Pointer(&poller.event), 1, unsafe.Pointer(&poller.n)) != 0 {
		return 0
	}
	return hostNextEvent()
}

// pollFor polls until the handle is resolved, and is false if the wait has to go on by way of Go's scheduler: as soon as
// there is something else to do.
func pollFor(ctx context.Context, h int64, body func(Step) ([]byte, error)) bool {
	for quiet() {
		e := poll()
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
		default: // as if the reader goroutine had got it: once this one waits
			go handle(kind, e>>3)
			return false
		}
	}
	return false
}

// wait blocks the goroutine until the handle is resolved, or withdraws it when ctx ends.
func wait(ctx context.Context, h int64, body func(Step) ([]byte, error)) ([]byte, error) {
	switch {
	case h < 0:
		return nil, lastError()
	case pollFor(ctx, h, body):
		return result(h)
	}
	c := make(chan int, 1)
	st.waiters[h] = c
	return waitOn(ctx, h, c, body)
}

// waitOn is wait by way of Go's scheduler, with a channel on which the event may have come already.
func waitOn(ctx context.Context, h int64, c chan int, body func(Step) ([]byte, error)) ([]byte, error) {
	select {
	case kind := <-c:
		if kind == eventRunBody {
			runBody(ctx, body)
		}
	case <-ctx.Done():
		if err := gate(); err != nil { // a timer of the workflow that comes due while a body runs
			return nil, err
		}
		switch hostCancel(h) {
		case 0:
			delete(st.waiters, h)
			return nil, context.Cause(ctx)
		case 2: // an attempt has begun: its outcome is waited for
			if <-c == eventRunBody {
				runBody(ctx, body)
			}
		}
	}
	delete(st.waiters, h)
	return result(h)
}

// waitAgain is wait for a handle whose event may have come before.
func waitAgain(ctx context.Context, h int64) ([]byte, error) {
	c := st.waiters[h]
	if c != nil && len(c) == 0 && pollFor(ctx, h, nil) {
		delete(st.waiters, h)
		c = nil
	}
	if c == nil { // it has been told
		return result(h)
	}
	return waitOn(ctx, h, c, nil)
}
