package typescript_test

import (
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

// TestDeadlockAfterCancel has a run wait forever after it was told of a cancel: it ends as cancelled, and its journal
// can be replayed.
func TestDeadlockAfterCancel(t *testing.T) {
	p := load(t, "waits.ts")
	p.begin("waits", "waits", 0)
	p.Advance(time.Minute)
	p.cancel("waits")
	if r := p.Finish("waits"); r.Status != host.Cancelled {
		t.Errorf("the run is %s: %s", r.Status, p.ends("waits"))
	}
	if err := p.Replay(p.ctx, "waits"); err != nil {
		t.Error(err)
	}
}
