package host_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestComputingIsShared has more runs compute forever than there are places: other runs start, wait, wake and end
// beside them. Without turns, none of the others would ever end.
func TestComputingIsShared(t *testing.T) {
	h := handmade(t, spin(), hosttest.WithConfig(func(c *host.Config) {
		c.MaxFuel, c.MaxSegmentCPU, c.StartLinger, c.MaxInstances = math.MaxInt64/2, time.Hour, time.Millisecond, 2
	}))
	for i := range 10 {
		_, err := h.Start(ctx, "w", nil, host.WithRunID(fmt.Sprint("spin", i)))
		do(t, err)
	}
	waits := wasmgen.New(0).Text("go").I64(-1).Call(abi.FnSignalStart).Drop().I32(0).I32(0).Call(abi.FnAwait).Drop().I32(0)
	_, err := h.Upload(ctx, "honest", waits.Export(abi.ExportRun).Bytes())
	do(t, err)
	for i := range 3 {
		id := fmt.Sprint("honest", i)
		_, err := h.Start(ctx, "honest", nil, host.WithRunID(id))
		do(t, err)
		do(t, h.Signal(ctx, id, "go", nil))
		_, err = h.ResultRaw(ctx, id)
		do(t, err)
	}
	// Runs that compute forever can be ended, whether they have their turn or not.
	for i := range 10 {
		do(t, h.Terminate(ctx, fmt.Sprint("spin", i)))
	}
}
