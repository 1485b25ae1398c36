package shard

import (
	"context"
	"sync"
	"sync/atomic"
)

// Activity counts work in progress. Work that causes other work is counted until the other work is counted, too. So a
// count of zero means that nothing happens until time passes. The zero Activity is ready to use.
type Activity struct {
	going atomic.Int64
	begun atomic.Uint64 // number of calls of Begin

	mu   sync.Mutex    // guards idle; Wait calls its callback while holding it
	idle chan struct{} // closed when the count reaches zero; nil if no caller waits
}

// Begin counts a piece of work that begins.
func (a *Activity) Begin() {
	a.going.Add(1)
	a.begun.Add(1)
}

// Done counts a piece of work as finished that Begin has counted.
func (a *Activity) Done() {
	if a.going.Add(-1) == 0 {
		a.Wake()
	}
}

// Wake makes all callers of Wait check their conditions again.
func (a *Activity) Wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.idle != nil {
		close(a.idle)
		a.idle = nil
	}
}

// Begun returns how often Begin was called.
func (a *Activity) Begun() uint64 { return a.begun.Load() }

// Wait blocks until no work is in progress or over returns true, and returns how often Begin had been called just
// before that check. It checks at once and after each Wake, and calls over while holding the lock of the Activity.
// The only error is the error of ctx.
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
