// Package lifecycle starts and stops the keepers beside a host, which run its schedules and the queues of its limits. A
// keeper is made before the host that it uses, waits until Begin, and ends with the host.
package lifecycle

import (
	"context"
	"sync"

	"github.com/wfhost/wfhost/store"
)

// Life is the life cycle of a keeper: NewLife, Begin, Close. Its methods may be called concurrently.
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

// Begin reports that the keeper has its host. Writes before Begin happen before Wait returns nil. Begin is called once.
func (l *Life) Begin() { close(l.begun) }

// Wait blocks until Begin. It returns the cause of ctx if ctx ends first, and store.ErrClosed if Close is called first.
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

// Go runs f in a goroutine, with a context that Close cancels; Close waits for it. After Close, Go returns false
// without calling f.
func (l *Life) Go(f func(ctx context.Context)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.work.Go(func() { f(l.ctx) })
	}
	return !l.closed
}

// Close cancels the context of all functions that Go started, and blocks until they have returned.
func (l *Life) Close() {
	l.cancel()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.work.Wait()
}
