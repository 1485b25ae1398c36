package workflow

import (
	"math"
	"testing"
	"time"
)

func TestLongestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0ms", 1: "1ms", time.Second: "1000ms",
		math.MaxInt64: "9223372036854ms", math.MaxInt64 - 1e6: "9223372036854ms",
		-1: "-1ms", -1500 * time.Microsecond: "-1ms", math.MinInt64: "-9223372036854ms"} {
		if got := text(d); got != want {
			t.Errorf("%d ns are %s, want %s", d, got, want)
		}
	}
	for ms, want := range map[int64]time.Duration{5: 5 * time.Millisecond, math.MaxInt64: 9_223_372_036_854 * time.Millisecond} {
		if got := fromMillis(ms); got != want {
			t.Errorf("%d ms are %v, want %v", ms, got, want)
		}
	}
}
