package bench

import (
	"testing"
	"time"
)

func TestLatency(t *testing.T) {
	upTo := func(n int) (s []time.Duration) {
		for i := n; i > 0; i-- { // falling: it has to sort
			s = append(s, time.Duration(i))
		}
		return s
	}
	for _, c := range []struct {
		samples []time.Duration
		want    Latency
	}{
		{nil, Latency{}},
		{upTo(1), Latency{1, 1, 1, 1, 1}},
		{upTo(2), Latency{1, 2, 2, 2, 2}},
		{upTo(3), Latency{2, 3, 3, 3, 3}},
		{upTo(100), Latency{50, 99, 100, 100, 100}},
		{upTo(1000), Latency{500, 990, 999, 1000, 1000}},
		{upTo(10000), Latency{5000, 9900, 9990, 10000, 10000}},
		{[]time.Duration{7, 7, 7, -7}, Latency{7, 7, 7, 7, 4}},
	} {
		if got := latencyOf(c.samples); got != c.want {
			t.Errorf("%d samples: %+v, want %+v", len(c.samples), got, c.want)
		}
	}
}

func TestText(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0.0 µs", 1500: "1.5 µs", 2_345_678: "2.35 ms", 61_000_000_000: "61.00 s",
		-3_000_000: "-3.00 ms"} {
		if got := text(d); got != want {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
	}
}
