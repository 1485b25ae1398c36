package host

import (
	"testing"
	"time"
)

// TestLeaseMargin has beats answered in time, late, and not at all: the shortest margin is shown for half a minute to a minute.
func TestLeaseMargin(t *testing.T) {
	const lease = 5 * time.Second
	start := time.Unix(1_800_000_000, 0)
	var l leaseMargin
	beat := func(began, answered time.Duration) { l.prolonged(start.Add(began), start.Add(answered), lease) }
	shortest := func(at time.Duration, want time.Duration) {
		t.Helper()
		if got := l.shortest(start.Add(at)); got != want {
			t.Errorf("after %v: %v, want %v", at, got, want)
		}
	}
	beat(0, 100*time.Millisecond)
	shortest(200*time.Millisecond, 4800*time.Millisecond)
	for at := time.Second; at <= 10*time.Second; at += time.Second {
		beat(at, at+10*time.Millisecond)
	}
	shortest(10*time.Second+10*time.Millisecond, 3990*time.Millisecond)
	beat(11*time.Second, 13*time.Second) // the one before lasts until 15 s
	beat(14*time.Second, 14*time.Second)
	for at := 15 * time.Second; at <= 59*time.Second; at += time.Second {
		shortest(at, 2*time.Second)
		beat(at, at+10*time.Millisecond)
	}
	for at := 60 * time.Second; at <= 61*time.Second; at += time.Second {
		beat(at, at+10*time.Millisecond)
	}
	shortest(62*time.Second, 3990*time.Millisecond)
	shortest(65*time.Second, time.Second)
	shortest(90*time.Second, 0)
	beat(100*time.Second, 100*time.Second) // after it had lapsed
	shortest(101*time.Second, 0)
}
