package measure

import (
	"slices"
	"time"
)

// Quantile returns the sample below which the share p of the samples is, by the nearest rank. It sorts the samples.
// There is at least one.
func Quantile(samples []time.Duration, p float64) time.Duration {
	slices.Sort(samples)
	return samples[min(int(p*float64(len(samples))), len(samples)-1)]
}

// Median returns the middle value, or the mean of the two in the middle. There is at least one.
func Median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}
