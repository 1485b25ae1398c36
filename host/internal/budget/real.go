package budget

import (
	"crypto/rand"

	"github.com/wfhost/wfhost/host/internal/clock"
)

// RealRandom fills p from the system's secure random.
func RealRandom(p []byte) {
	if _, err := rand.Read(p); err != nil {
		panic(err) // crypto/rand.Read never fails since Go 1.24
	}
}

// RealTime returns a function that returns the wall time and the time elapsed since RealTime was called, both in nanoseconds.
// The wall time starts at the time of clock of and advances with Clock.
func RealTime(of clock.Clock) func() (int64, int64) {
	wall, start := of.Now(), Clock.Now()
	return func() (int64, int64) {
		elapsed := Clock.Now().Sub(start)
		return wall.Add(elapsed).UnixNano(), int64(elapsed)
	}
}
