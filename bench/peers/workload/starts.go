package workload

import (
	"context"
	"errors"
	"time"

	"github.com/wfhost/wfhost/bench/peers/measure"
)

// Starts is workload W4: workflows without steps, from start to result, one after the other.
type Starts struct{ For time.Duration }

// Run returns resultP50Ms and resultP99Ms.
func (w Starts) Run(ctx context.Context, b *Bench) (Figures, error) {
	if err := b.WarmUp(ctx); err != nil {
		return nil, err
	}
	var samples []time.Duration
	for begun := time.Now(); time.Since(begun) < w.For; {
		from := time.Now()
		if err := b.Engine.Run(ctx, b.workflow(0, 0, 0, 0)); err != nil {
			return nil, err
		}
		samples = append(samples, time.Since(from))
	}
	if len(samples) == 0 {
		return nil, errors.New("there was no time for a single start")
	}
	return Figures{"resultP50Ms": ms(measure.Quantile(samples, 0.5)), "resultP99Ms": ms(measure.Quantile(samples, 0.99))}, nil
}
