package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/bench/peers/job"
	"github.com/wfhost/wfhost/bench/peers/measure"
)

// Sleepers is workload W2: N workflows, each of which makes a step, sleeps, and makes a step. If Rate is 0, they are started
// as fast as the engine accepts them, else so many in a second, and they wake at that rate.
type Sleepers struct {
	N, Rate int
	Sleep   time.Duration
}

const (
	// starters is how many starts go on at a time.
	starters = 64
	// settle is how long an engine has nothing to do before its memory is read, and before its CPU time is read at the end.
	settle = 3 * time.Second
	// sampleEach is how often memory is read. A reading takes some milliseconds: the kernel walks over all pages.
	sampleEach = 300 * time.Millisecond
	// patience is how long nothing may happen after all sleeps are over.
	patience = 90 * time.Second
)

// night is one run of the workload. Instants are Unix nanoseconds, 0 if not yet.
type night struct {
	first, second []atomic.Int64 // by workflow
	asleep, awake atomic.Int64   // how many first steps and second steps there were
	wake          atomic.Int64   // the first second step
}

func newNight(n int) *night {
	return &night{first: make([]atomic.Int64, n), second: make([]atomic.Int64, n)}
}

// note counts each step once, whatever an engine repeats.
func (n *night) note(s job.Step, at time.Time) {
	switch {
	case s.Number == 0 && n.first[s.Slot].CompareAndSwap(0, at.UnixNano()):
		n.asleep.Add(1)
	case s.Number == 1 && n.second[s.Slot].CompareAndSwap(0, at.UnixNano()):
		n.awake.Add(1)
		n.wake.CompareAndSwap(0, at.UnixNano())
	}
}

// Run returns
//   - baseBytes: memory before the first workflow, when the engine had nothing to do;
//   - asleepBytes: memory when all were asleep, left out if the first woke before the last slept;
//   - peakBytes: the most memory from the first wake to the last;
//   - startsPerS: the rate at which starts were accepted;
//   - lateP50Ms, lateP99Ms: from the end of a workflow's sleep to its second step. The sleep counts from the body of the
//     first step: what it takes to commit that step and the sleep is part of the lateness;
//   - cpuPerWorkflowUs: CPU time of one workflow, its start included.
func (w Sleepers) Run(ctx context.Context, b *Bench) (Figures, error) {
	if err := pause(ctx, settle); err != nil {
		return nil, err
	}
	base, err := b.Machine.Memory()
	if err != nil {
		return nil, err
	}
	if err := b.WarmUp(ctx); err != nil {
		return nil, err
	}
	n := newNight(w.N)
	b.observe(n.note)
	cpu, err := b.Machine.CPU()
	if err != nil {
		return nil, err
	}
	watch := newWatch(b.Machine, n)
	took, err := w.start(ctx, b)
	if err == nil {
		err = w.wait(ctx, n)
	}
	m, memErr := watch.stop()
	if err := errors.Join(err, memErr); err != nil {
		return nil, err
	}
	if err := pause(ctx, settle); err != nil {
		return nil, err
	}
	cpuAfter, err := b.Machine.CPU()
	if err != nil {
		return nil, err
	}
	f := Figures{"baseBytes": float64(base), "peakBytes": float64(m.peak), "startsPerS": float64(w.N) / took.Seconds(),
		"cpuPerWorkflowUs": us(cpuAfter-cpu-m.cpu) / float64(w.N)}
	if m.asleep > 0 {
		f["asleepBytes"] = float64(m.asleep)
	}
	late := n.lateness(w.Sleep)
	f["lateP50Ms"], f["lateP99Ms"] = ms(measure.Quantile(late, 0.5)), ms(measure.Quantile(late, 0.99))
	return f, nil
}

// start starts all workflows, and returns how long it took.
func (w Sleepers) start(ctx context.Context, b *Bench) (time.Duration, error) {
	begun := time.Now()
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next atomic.Int64
	var callers sync.WaitGroup
	for range min(starters, w.N) {
		callers.Go(func() {
			for i := int(next.Add(1)) - 1; i < w.N; i = int(next.Add(1)) - 1 {
				if w.Rate > 0 {
					_ = pause(running, time.Until(begun.Add(time.Duration(i)*time.Second/time.Duration(w.Rate))))
				}
				if running.Err() != nil {
					return
				}
				if err := b.Engine.Start(running, b.workflow(i, 1, w.Sleep, 1)); err != nil {
					stop(err)
				}
			}
		})
	}
	callers.Wait()
	return time.Since(begun), context.Cause(running)
}

// wait blocks until all workflows have made their second step. It gives up if nothing happens for a sleep and 90 s.
func (w Sleepers) wait(ctx context.Context, n *night) error {
	const look = 20 * time.Millisecond
	for seen, since := int64(0), time.Now(); n.awake.Load() < int64(w.N); {
		if err := pause(ctx, look); err != nil {
			return err
		}
		if now := n.asleep.Load() + n.awake.Load(); now != seen {
			seen, since = now, time.Now()
		}
		if time.Since(since) > w.Sleep+patience {
			return fmt.Errorf("%d of %d workflows slept and %d woke, then nothing happened for %v", n.asleep.Load(), w.N,
				n.awake.Load(), w.Sleep+patience)
		}
	}
	return nil
}

func (n *night) lateness(sleep time.Duration) []time.Duration {
	late := make([]time.Duration, len(n.first))
	for i := range late {
		late[i] = time.Duration(n.second[i].Load()-n.first[i].Load()) - sleep
	}
	return late
}
