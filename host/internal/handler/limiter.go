package handler

import (
	"context"
	"sync"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Limiter decides when the attempts of handlers with limits may begin.
type Limiter interface {
	// Enter calls begin when an attempt may begin: within this call, or later in a goroutine of its own. If ctx ends
	// before, it gives the attempt up instead.
	Enter(ctx context.Context, c *Call, begin func())
	// SetDraining sets whether the host is about to stop. While it is, waiting attempts are given up.
	SetDraining(draining bool)
	// Next returns when a waiting attempt may begin by the passing of time alone, and false if there is none.
	Next() (unixMs int64, ok bool)
	// Waiting reports whether an attempt of a run waits.
	Waiting(run store.RunKey) bool
}

// Waits reports whether an attempt of a run waits for its limits.
func (r *Registry) Waits(run store.RunKey) bool { return r.limiter != nil && r.limiter.Waiting(run) }

// NotBegun returns the outcome of an attempt that has not begun when its host stops. It is a failure for an attempt
// that may be made at most once: such an attempt was recorded before it was to begin, and without an outcome the run
// could not know that it never began.
func NotBegun(atMostOnce bool) run.StepOutcome {
	if !atMostOnce {
		return run.StepOutcome{Abandoned: true}
	}
	out := run.StepFailure(abi.KindError, "the host stopped before it began", true)
	out.RetryAfterMs = 0
	return out
}

// leave returns what Limiter gave the attempt, before the attempt's outcome reaches its run. The next holder of a slot
// is thus counted as activity before this attempt ceases to be.
func (c *Call) leave() {
	if c.Leave != nil {
		c.Leave()
	}
}

// Pulse counts an attempt as activity, except while it waits for something outside the host.
type Pulse struct {
	mu            sync.Mutex // guards the fields below; Activity is called while it is held
	resting, over bool
}

// Activity counts work in progress.
type Activity interface {
	Begin()
	Done()
}

// Busy sets whether the attempt counts. It counts from the beginning, and Busy changes nothing after End.
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

// End marks the attempt as over, and reports whether it is the first call. The attempt then counts until the caller
// calls a.Done.
func (p *Pulse) End(a Activity) bool {
	p.Busy(a, true)
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.over
	p.over = true
	return first
}
