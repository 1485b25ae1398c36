package workload

import (
	"context"
	"sync"
	"time"

	"github.com/wfhost/wfhost/bench/peers/job"
	"github.com/wfhost/wfhost/bench/peers/measure"
)

// History is workload W3: a workflow with Steps steps behind it sleeps, and makes one more step. It runs Times times.
type History struct {
	Steps, Times int
	Sleep        time.Duration
}

// Run returns nextStepMs, the median time from the instant when the sleep is over to the next step, and builtS, how
// long the steps ahead of it took.
func (w History) Run(ctx context.Context, b *Bench) (Figures, error) {
	if err := b.WarmUp(ctx); err != nil {
		return nil, err
	}
	var nexts, built []float64
	for range w.Times {
		var mu sync.Mutex
		var first, last, next time.Time
		b.observe(func(s job.Step, at time.Time) {
			mu.Lock()
			defer mu.Unlock()
			switch s.Number {
			case 0:
				first = at
			case w.Steps - 1:
				last = at
			case w.Steps:
				next = at
			}
		})
		if err := b.Engine.Run(ctx, b.workflow(0, w.Steps, w.Sleep, 1)); err != nil {
			return nil, err
		}
		mu.Lock()
		nexts = append(nexts, ms(next.Sub(last.Add(w.Sleep))))
		built = append(built, last.Sub(first).Seconds())
		mu.Unlock()
	}
	return Figures{"nextStepMs": measure.Median(nexts), "builtS": measure.Median(built)}, nil
}
