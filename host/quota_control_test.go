package host_test

import (
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestHeldRunsAreControlled pauses, cancels, replaces and deletes runs that wait for their namespace's write quota,
// with crashes: each action takes effect, and the other runs continue.
func TestHeldRunsAreControlled(t *testing.T) {
	h := hosttest.New(t)
	m := wasmgen.New(0).Text("t").I32(32_768).I32(10_000).Call(abi.FnEmit).Drop()
	a := tenant(t, h, "a", m.Text("go").I64(-1).I32(0).I32(0).Call(abi.FnSignalWait).Drop().I32(0))
	ids := []string{"paused", "cancelled", "replaced", "deleted", "left"}
	for _, id := range ids {
		_, err := a.StartRaw(ctx, "w", nil, host.WithRunID(id))
		do(t, err)
	}
	h.Settle()
	do(t, h.SetQuota(ctx, "a", host.Quota{BytesPerSecond: 10_000}))
	_, err := a.StartRaw(ctx, "w", nil, host.WithRunID("writes"))
	do(t, err)
	_, err = a.StartRaw(ctx, "w", nil, host.WithRunID("writes-too"))
	do(t, err)
	h.Settle()
	status := func(id string, want host.Status) {
		t.Helper()
		if r, err := a.Get(ctx, id); err != nil || r.Status != want {
			t.Errorf("%s is %v, want %v: %v", id, r.Status, want, err)
		}
	}
	for _, id := range ids {
		do(t, a.Signal(ctx, id, "go", nil))
	}
	h.Settle()
	for _, id := range ids {
		status(id, host.Queued)
	}
	_, err = a.Pause(ctx, "paused")
	do(t, err)
	_, err = a.Cancel(ctx, "cancelled")
	do(t, err)
	do(t, a.Terminate(ctx, "deleted"))
	do(t, a.Delete(ctx, "deleted"))
	do(t, a.Terminate(ctx, "replaced"))
	h.Crash()
	a, err = h.Namespace(ctx, "a")
	do(t, err)
	h.Advance(time.Minute)
	status("paused", host.Paused)
	status("left", host.Completed)
	_, err = a.StartRaw(ctx, "w", nil, host.WithRunID("replaced"), host.OnConflict(host.ConflictReplace))
	do(t, err)
	_, err = a.Unpause(ctx, "paused")
	do(t, err)
	h.Advance(time.Minute)
	status("paused", host.Completed)
	status("replaced", host.Waiting)
	if r, err := a.Get(ctx, "cancelled"); err != nil || !r.Status.Terminal() {
		t.Errorf("it is %v, %v", r.Status, err)
	}
}
