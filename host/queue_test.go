package host_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestMoreStartsThanWait starts more runs than may wait in memory while there is no place, and terminates even more
// of the runs that wait as keys. The remaining runs are executed.
func TestMoreStartsThanWait(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	waits, goOn := make(chan struct{}), make(chan struct{})
	h := hosttest.New(t, hosttest.WithConfig(func(c *host.Config) {
		c.MaxInstances, c.StartLinger = 1, time.Millisecond
		c.Events.GuestWaits = func(w host.WaitInfo) { // while it has its place
			if w.RunID == "first" {
				close(waits)
				<-goOn
			}
		}
	}))
	_, err := h.Upload(ctx, "quick", versioned(`"x"`))
	do(t, err)
	_, err = h.Upload(ctx, "nap", napModule())
	do(t, err)
	first := make(chan error, 1)
	go func() { // its commit may have to wait until the guest yields
		_, err := h.StartRaw(ctx, "nap", []byte("1h"), host.WithRunID("first"))
		first <- err
	}()
	<-waits
	const n, left = 9000, 100
	for i := range n {
		_, err := h.Start(ctx, "quick", nil, host.WithRunID(fmt.Sprint("r", i)))
		do(t, err)
	}
	for i := 4200; i < n-left; i++ {
		do(t, h.Terminate(ctx, fmt.Sprint("r", i)))
	}
	close(goOn)
	do(t, <-first)
	h.Settle()
	for r, err := range h.Runs(ctx, host.Query{Workflow: "quick"}) {
		if err != nil || !r.Status.Terminal() {
			t.Fatal(r.ID, r.Status, err)
		}
	}
}

// TestChildOfADeletedID starts a child under the id of a deleted run. It is refused, and does not block deleting
// versions or starting runs.
func TestChildOfADeletedID(t *testing.T) {
	f := newMixed(t)
	_, err := f.Start(ctx, "nap", 0, host.WithRunID("gone"))
	do(t, err)
	f.finish("gone", "slept")
	do(t, f.Delete(ctx, "gone"))
	_, err = f.Upload(ctx, "w", wasmgen.New(0).Text("kid").Text("nap").Text("0").Text(`{"id":"gone"}`).I32(64).I32(64).
		Call(abi.FnChildRun).Wrap().Export(abi.ExportRun).Bytes())
	do(t, err)
	f.begin("w", nil)
	f.ends("r", host.Failed)
	_, err = f.ResultRaw(ctx, "r")
	if err == nil || !strings.Contains(err.Error(), "returned -") {
		t.Error(err)
	}
	_, err = f.Upload(ctx, "other", versioned(`"x"`))
	do(t, err)
	soon(t, "DeleteVersion", func() { do(t, f.Workflows().DeleteVersion(ctx, "other", 1)) })
	soon(t, "Start", func() {
		_, err := f.Start(ctx, "nap", 0)
		do(t, err)
	})
}
