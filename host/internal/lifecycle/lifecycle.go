// Package lifecycle starts and stops what runs beside a host: schedules, and the queues of limits. They are made before the host
// that they use, wait for it, and end with it.
package lifecycle

import (
	"context"
	"sync"

	"github.com/wfhost/wfhost/store"
)

// Life is the life of a keeper, from New over Begin to Close. Its methods may be called concurrently.
type Life struct {
	begun  chan struct{}   // closed by Begin
	ctx    context.Context //nolint:containedctx // it ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex // guards closed; nothing is called while it is held
	closed bool
}

// NewLife returns a Life that waits for Begin.
func NewLife() *Life {
	l := &Life{begun: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Begin says that the keeper has its host. What was written before is seen by those for whom Wait returns. It is called once.
func (l *Life) Begin() { close(l.begun) }

// Wait blocks until Begin. It returns the cause of ctx if that ends first, and store.ErrClosed if Close does.
func (l *Life) Wait(ctx context.Context) error {
	select {
	case <-l.begun:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.ctx.Done():
		return store.ErrClosed
	}
}

// Go calls f in a goroutine that Close waits for, with a context that Close ends. After Close it reports false, and does not call
// f.
func (l *Life) Go(f func(ctx context.Context)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.work.Go(func() { f(l.ctx) })
	}
	return !l.closed
}

// Close ends the context of what Go has started, and blocks until all of that has returned.
func (l *Life) Close() {
	l.cancel()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.work.Wait()
}
