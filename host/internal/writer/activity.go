package writer

import (
	"context"
	"sync"
	"sync/atomic"
)

// Activity counts what goes on. Whatever causes something else counts that before it is done itself, so that zero means that
// nothing happens any more until time passes. The zero Activity is ready to be used.
type Activity struct {
	going atomic.Int64
	begun atomic.Uint64 // how often something began

	mu   sync.Mutex    // guards idle; what Wait is given is called while it is held
	idle chan struct{} // closed when nothing goes on; nil if nobody waits
}

// Begin counts something that begins.
func (a *Activity) Begin() {
	a.going.Add(1)
	a.begun.Add(1)
}

// Done says that something is over which Begin has counted.
func (a *Activity) Done() {
	if a.going.Add(-1) == 0 {
		a.Wake()
	}
}

// Wake has those that wait look again.
func (a *Activity) Wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.idle != nil {
		close(a.idle)
		a.idle = nil
	}
}

// Begun returns how often something began.
func (a *Activity) Begun() uint64 { return a.begun.Load() }

// Wait waits until nothing goes on, or over says that this does not matter any more, and returns how often something had begun
// just before. It looks whenever Wake is called. An error is that of ctx.
func (a *Activity) Wait(ctx context.Context, over func() bool) (begun uint64, err error) {
	for {
		a.mu.Lock()
		begun = a.begun.Load()
		if a.going.Load() == 0 || over() {
			a.mu.Unlock()
			return begun, nil
		}
		if a.idle == nil {
			a.idle = make(chan struct{})
		}
		idle := a.idle
		a.mu.Unlock()
		if a.going.Load() == 0 {
			a.Wake()
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
