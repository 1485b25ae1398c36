package host_test

import (
	"testing"

	"github.com/wfhost/wfhost/host"
)

// TestHeartbeatDetailsOfAStop stops the host gracefully while a handler is working: all heartbeat details are kept.
func TestHeartbeatDetailsOfAStop(t *testing.T) {
	p, w := newWalker(t)
	if _, err := p.Start(ctx, "retryable", 0, host.WithRunID("walk")); err != nil {
		t.Fatal(err)
	}
	want(t, <-w.seen, "")
	w.walk(t, 1) // recorded at once
	w.walk(t, 2) // in memory
	w.walk(t, 3)
	p.Reopen()
	want(t, <-w.seen, "3")
	w.walk(t, 4)
	w.steps <- -1
	p.Settle()
	want(t, p.status("walk"), host.Completed)
}
