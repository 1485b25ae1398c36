// Package workload has the four workloads. They know engines by an interface, and read no clock but that of package
// time, so that their tests run in a bubble of testing/synctest.
package workload

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/bench/peers/job"
)

// Engine runs the workflow of package job durably.
type Engine interface {
	// Start returns when the start of a workflow is durable.
	Start(ctx context.Context, w job.Workflow) error
	// Run starts a workflow and returns when its result has arrived.
	Run(ctx context.Context, w job.Workflow) error
}

// Machine is what an engine's processes use.
type Machine interface {
	CPU() (time.Duration, error)
	Memory() (int64, error)
}

// Workload is one measurement of an engine.
type Workload interface {
	Run(ctx context.Context, b *Bench) (Figures, error)
}

// Figures are the results of a workload by their names. The unit is the end of the name: PerS, Ms, Us, Bytes.
type Figures map[string]float64

// Bench is one engine under measurement. Workloads run on it one after the other.
type Bench struct {
	Engine  Engine
	Machine Machine

	observer atomic.Pointer[func(job.Step, time.Time)]
	started  atomic.Int64
}

// Note is called by the body of each step. This is all that a step does.
func (b *Bench) Note(s job.Step) {
	if f := b.observer.Load(); f != nil {
		(*f)(s, time.Now())
	}
}

// observe has f called for each step from now on, by many goroutines at a time.
func (b *Bench) observe(f func(s job.Step, at time.Time)) { b.observer.Store(&f) }

// workflow returns a workflow with an id that no other one has.
func (b *Bench) workflow(slot, before int, sleep time.Duration, after int) job.Workflow {
	return job.Workflow{ID: "job-" + strconv.FormatInt(b.started.Add(1), 10), Slot: slot, Before: before,
		SleepMs: sleep.Milliseconds(), After: after}
}

// WarmUp runs some short workflows, so that connections are open and code is compiled before anything is measured.
func (b *Bench) WarmUp(ctx context.Context) error {
	const n = 20
	for range n {
		if err := b.Engine.Run(ctx, b.workflow(0, 2, 0, 0)); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
	}
	return nil
}

// pause sleeps for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
