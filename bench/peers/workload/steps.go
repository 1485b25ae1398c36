package workload

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/wfhost/wfhost/bench/peers/job"
	"github.com/wfhost/wfhost/bench/peers/measure"
)

// Steps is workload W1: workflows of Length steps, AtATime of them at a time. After WarmUp, the steps of the time For
// count. A fixed time, and not a fixed number of workflows, because engines differ by more than ten times: with a number,
// the fast one would be measured for a moment. Workflows that have begun go on to their end afterwards, uncounted.
type Steps struct {
	Length, AtATime int
	WarmUp, For     time.Duration
}

// stepCounter counts the steps between begin and end, and takes the time from each to the next one of its workflow.
type stepCounter struct {
	mu       sync.Mutex
	counting bool
	last     []time.Time // by slot
	gaps     []time.Duration
	steps    int
}

func (c *stepCounter) note(s job.Step, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counting {
		c.steps++
		if s.Number > 0 {
			c.gaps = append(c.gaps, at.Sub(c.last[s.Slot]))
		}
	}
	c.last[s.Slot] = at
}

func (c *stepCounter) count(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counting = on
}

// Run returns stepsPerS, stepP50Ms and stepP99Ms (from one step of a workflow to its next), and cpuPerStepUs.
func (w Steps) Run(ctx context.Context, b *Bench) (Figures, error) {
	c := &stepCounter{last: make([]time.Time, w.AtATime)}
	b.observe(c.note)
	running, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, w.AtATime)
	var callers sync.WaitGroup
	for i := range w.AtATime {
		callers.Go(func() {
			for running.Err() == nil && errs[i] == nil {
				errs[i] = b.Engine.Run(ctx, b.workflow(i, w.Length, 0, 0))
			}
			if errs[i] != nil {
				stop() // one failed: there is nothing to measure
			}
		})
	}
	f, err := w.window(running, b, c)
	stop()
	callers.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return nil, errs[i]
	}
	return f, err
}

// window measures while the callers are at work.
func (w Steps) window(running context.Context, b *Bench, c *stepCounter) (Figures, error) {
	if err := pause(running, w.WarmUp); err != nil {
		return nil, err
	}
	cpu, err := b.Machine.CPU()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	c.count(true)
	if err := pause(running, w.For); err != nil {
		return nil, err
	}
	c.count(false)
	took := time.Since(begun)
	cpuAfter, err := b.Machine.CPU()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.gaps) == 0 {
		return nil, errors.New("no workflow made a step while steps were counted")
	}
	return Figures{
		"stepsPerS":    float64(c.steps) / took.Seconds(),
		"stepP50Ms":    ms(measure.Quantile(c.gaps, 0.5)),
		"stepP99Ms":    ms(measure.Quantile(c.gaps, 0.99)),
		"cpuPerStepUs": us(cpuAfter-cpu) / float64(c.steps),
	}, nil
}
