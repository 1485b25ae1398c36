package handler

import (
	"context"
	"sync"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/step"
	"github.com/wfhost/wfhost/store"
)

// Limiter lets attempts begin whose handlers have limits.
type Limiter interface {
	// Enter has begin called when an attempt may begin: by this call, or later in a goroutine of its own. One whose context ends
	// before that is given up instead.
	Enter(ctx context.Context, c *Call, begin func())
	// SetDraining says whether the host is about to stop. Then attempts that wait are given up.
	SetDraining(draining bool)
	// Next returns when an attempt that waits may begin by time alone, false if there is none.
	Next() (unixMs int64, ok bool)
	// Waiting reports whether an attempt of a run waits.
	Waiting(run store.RunKey) bool
}

// Waits reports whether an attempt of a run waits for its limits.
func (r *Registry) Waits(run store.RunKey) bool { return r.limiter != nil && r.limiter.Waiting(run) }

// NotBegun returns the outcome of an attempt that has not begun when its host stops. One that may be made at most once was
// recorded before it was to begin: without an outcome nobody would know that it has not.
func NotBegun(atMostOnce bool) step.Outcome {
	if !atMostOnce {
		return step.Outcome{Abandoned: true}
	}
	out := step.Failure(abi.KindError, "the host stopped before it began", true)
	out.RetryAfterMs = 0
	return out
}

// leave returns the slot of the attempt, before its outcome is known to its run: what the slot is for then is counted as activity
// before the attempt is not any more.
func (c *Call) leave() {
	if c.Leave != nil {
		c.Leave()
	}
}

// Pulse counts an attempt among what goes on, but for the time in which it waits for something else than the host.
type Pulse struct {
	mu            sync.Mutex // guards what follows; the activity is called while it is held
	resting, over bool
}

// Activity counts what goes on.
type Activity interface {
	Begin()
	Done()
}

// Busy says whether the attempt counts. It counts from the beginning, and not after its end.
func (p *Pulse) Busy(a Activity, busy bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over || p.resting != busy:
	case busy:
		p.resting = false
		a.Begin()
	default:
		p.resting = true
		a.Done()
	}
}

// End says that the attempt is over, and reports whether that is news. Then it counts until the caller has said a.Done.
func (p *Pulse) End(a Activity) bool {
	p.Busy(a, true)
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.over
	p.over = true
	return first
}
