package guest

import (
	"crypto/rand"

	"github.com/wfhost/wfhost/host/internal/budget"
)

// realRandom fills p from the system's secure random.
func realRandom(p []byte) {
	if _, err := rand.Read(p); err != nil {
		panic(err) // crypto/rand.Read never fails since Go 1.24
	}
}

// realTime returns the wall clock and the time since now.
func (r *Runner) realTime() func() (int64, int64) {
	wall, start := r.cfg.Clock.Now(), budget.Clock.Now()
	return func() (int64, int64) {
		elapsed := budget.Clock.Now().Sub(start)
		return wall.Add(elapsed).UnixNano(), int64(elapsed)
	}
}
