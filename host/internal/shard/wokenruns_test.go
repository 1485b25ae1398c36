package shard

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestWakeWindow compares the set with a simple count.
func TestWakeWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := wokenRuns{Limit: rapid.IntRange(1, 4).Draw(t, "limit")}
		marks := make([]wokenState, 6)
		in, since := make([]bool, len(marks)), make([]int64, len(marks))
		now := int64(1000)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			i := rapid.IntRange(0, len(marks)-1).Draw(t, "run")
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				if s.Full(now) {
					break
				}
				if s.Add(now, &marks[i]); !in[i] {
					in[i], since[i] = true, now
				}
			case 1:
				s.Remove(&marks[i])
				in[i] = false
			case 2:
				now += rapid.Int64Range(0, freshMs).Draw(t, "ms")
			}
			count, fresh, first := 0, 0, int64(math.MaxInt64)
			for i := range marks {
				if in[i] {
					count++
					if now < since[i]+freshMs {
						fresh++
						first = min(first, since[i]+freshMs)
					}
				}
			}
			if got, want := s.Full(now), fresh >= s.Limit; got != want || s.Len() != count {
				t.Fatalf("full: %v, want %v; %d in it, want %d", got, want, s.Len(), count)
			}
			if next, full := s.Next(); full != (fresh >= s.Limit) || full && next != first {
				t.Fatalf("next %d, want %d of %d", next, first, fresh)
			}
			if len(s.since) > 2*len(marks)*(freshMs+1) {
				t.Fatalf("%d instants are remembered", len(s.since))
			}
		}
	})
}

// A clock that is set back does not block wakes.
func TestWakeWindowClockSetBack(t *testing.T) {
	s := wokenRuns{Limit: 1}
	var m wokenState
	s.Add(5000, &m)
	if !s.Full(5000) || s.Full(4999) || !m.In() || m.Fresh() {
		t.Error("a run that is woken in the future keeps others from being woken")
	}
}
