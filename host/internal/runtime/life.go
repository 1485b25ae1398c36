package runtime

import (
	"context"
	"sync"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/errand"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/writer"
)

// ErrClosed says that the runtime is closing; nothing is accepted any more.
var ErrClosed = guest.ErrClosed

// budgetClock measures how long things take. It is the machine's clock even where the host runs in virtual time.
var budgetClock = clock.System()

// life is how far a runtime has come: it is usable until it is closed, or until the store has failed.
type life struct {
	activity writer.Activity
	ctx      context.Context //nolint:containedctx // it ends when the runtime is closed
	cancel   context.CancelCauseFunc
	wg       sync.WaitGroup // of what reads and writes, and of attempts
	reads    *errand.Pool   // of runs
	starts   *errand.Pool   // of children
	running  chan struct{}  // closed when Run has begun
	failing  chan struct{}  // closed when the store has failed
	seeking  sync.Mutex     // held while one partition is sought through at the beginning; see port.Ahead

	mu     sync.Mutex // guards what follows; nothing is called, and nothing else is locked, while it is held
	closed bool
	failed error
}

func newLife(ctx context.Context) *life {
	l := &life{running: make(chan struct{}), failing: make(chan struct{})}
	l.reads, l.starts = errand.New(errand.Reads, l.begin), errand.New(errand.ChildStarts, l.begin)
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return l
}

// usable returns why nothing may be accepted, nil if it may.
func (l *life) usable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusal()
}

// refusal is usable for those who hold mu.
func (l *life) refusal() error {
	if l.closed {
		return ErrClosed
	}
	return l.failed
}

// run says that Run has begun, if the runtime is usable.
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

// fail says that the store has failed. It reports whether that is news.
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

// failure returns how the store has failed, nil if it has not.
func (l *life) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// end says that the runtime is closed. It reports whether that is news.
func (l *life) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.closed
	l.closed = true
	return first
}

// begin counts something that Close waits for until end is called.
func (l *life) begin() (end func()) {
	l.activity.Begin()
	l.wg.Add(1)
	return func() {
		l.activity.Done()
		l.wg.Done()
	}
}

// background does something in a goroutine that Close waits for.
func (l *life) background(f func()) {
	end := l.begin()
	go func() {
		defer end()
		f()
	}()
}
