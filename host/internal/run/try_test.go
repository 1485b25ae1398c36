package run_test

import (
	"testing"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/run"
)

// A step without tries left begins again after a crash, unless that has happened a thousand times.
func TestRecoveries(t *testing.T) {
	for recoveries, poison := range map[uint32]bool{0: false, 3: false, 999: false, 1000: true} {
		s := &journal.Step{InFlight: true, Attempt: recoveries + 1, Recoveries: recoveries}
		s.Options.Attempts = 1
		n := run.NextAttemptOf(&journal.Handle{Step: s}, 2)
		if n.Poison != poison || !n.Recovery || n.Number != recoveries+2 {
			t.Errorf("after %d recoveries: %+v", recoveries, n)
		}
	}
}
