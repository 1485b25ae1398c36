package runtime

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/shard"
)

// guest.ErrClosed: the runtime is closing and accepts no more work.

// life is the lifecycle of a runtime, which is usable until it is closed or the store fails. It also tracks the runtime's
// goroutines.
type life struct {
	activity shard.Activity
	ctx      context.Context //nolint:containedctx // it ends when the runtime is closed
	cancel   context.CancelCauseFunc
	wg       sync.WaitGroup // goroutines for I/O and attempts; Close waits for it
	reads    *workPool      // reads of runs
	starts   *workPool      // starts of children
	running  chan struct{}  // closed when Run has begun
	failing  chan struct{}  // closed when the store has failed
	seeking  sync.Mutex     // held by port.Ahead, so that it searches one partition at a time after a start

	mu     sync.Mutex // guards the fields below; while it is held, no other lock is taken and no callback is called
	closed bool
	failed error
}

func newLife(ctx context.Context) *life {
	l := &life{running: make(chan struct{}), failing: make(chan struct{})}
	l.reads, l.starts = newWorkPool(concurrentReads, l.begin), newWorkPool(concurrentChildStarts, l.begin)
	// Go keeps as much garbage as is alive. After a million runs were read, because they wait for a handler, that is for nothing.
	l.reads.rest = debug.FreeOSMemory
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return l
}

// usable returns why the runtime accepts no work, nil if it does.
func (l *life) usable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusal()
}

// refusal is usable for callers that hold mu.
func (l *life) refusal() error {
	if l.closed {
		return guest.ErrClosed
	}
	return l.failed
}

// run records that Run has begun, or returns why the runtime is not usable.
func (l *life) run() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refusal(); err != nil {
		return err
	}
	select {
	case <-l.running: // Run was called before
	default:
		close(l.running)
	}
	return nil
}

// fail records that the store has failed. It returns false if the runtime is closed or has failed before.
func (l *life) fail(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil || l.closed {
		return false
	}
	l.failed = err
	close(l.failing)
	return true
}

// failure returns the error with which the store has failed, nil if it has not.
func (l *life) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// end records that the runtime is closed. It returns false if it was closed before.
func (l *life) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.closed
	l.closed = true
	return first
}

// begin makes Close wait until end is called.
func (l *life) begin() (end func()) {
	l.activity.Begin()
	l.wg.Add(1)
	return func() {
		l.activity.Done()
		l.wg.Done()
	}
}

// background calls f in a goroutine that Close waits for.
func (l *life) background(f func()) {
	end := l.begin()
	go func() {
		defer end()
		f()
	}()
}
