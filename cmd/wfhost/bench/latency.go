package bench

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Latency has the exact percentiles of a set of samples, by nearest rank.
type Latency struct {
	P50, P99, P999, Max time.Duration
	Samples             int
}

// latencyOf sorts the samples and returns their percentiles.
func latencyOf(samples []time.Duration) Latency {
	slices.Sort(samples)
	return Latency{P50: rank(samples, 0.5), P99: rank(samples, 0.99), P999: rank(samples, 0.999), Max: rank(samples, 1),
		Samples: len(samples)}
}

// rank returns the smallest sample that at least the given share of all samples does not exceed; 0 without samples.
func rank(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	// The product may be slightly above a whole number by rounding.
	i := int(math.Ceil(share*float64(len(sorted)) - 1e-9))
	return sorted[min(max(i, 1), len(sorted))-1]
}

// text formats a duration with about three digits.
func text(d time.Duration) string {
	switch a := d.Abs(); {
	case a < time.Millisecond:
		return fmt.Sprintf("%.1f µs", float64(d)/float64(time.Microsecond))
	case a < time.Second:
		return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
