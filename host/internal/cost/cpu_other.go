//go:build !unix

package cost

import (
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

var began = clock.System().Now()

// CPU returns the time since the process began: this system does not tell the CPU time.
func CPU() time.Duration { return clock.System().Now().Sub(began) }
