package host_test

import (
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestRetryOfALimit retries runs that have failed because of a limit: they fail again by the same limit, soon, live
// and after a crash, and never because of the machine's speed.
func TestRetryOfALimit(t *testing.T) {
	short := hosttest.WithConfig(func(c *host.Config) { c.MaxFuel, c.MaxSegmentCPU = 50_000_000, 30*time.Second })
	nap := func(m *wasmgen.Module) *wasmgen.Module { return m.Text("nap").I64(1000).Call(abi.FnSleep).Drop() }
	fill := func(m *wasmgen.Module) *wasmgen.Module { // the journal, by sleeps of no time
		return m.While().Text("a").I32(0).I32(0).Call(abi.FnEmit).Drop().EndWhile()
	}
	for name, c := range map[string]struct {
		m          *wasmgen.Module
		code, kind string
	}{
		"cpu":                   {wasmgen.New(0).While().EndWhile().I32(0), "LIMIT", "cpu"},
		"cpu after a wait":      {nap(wasmgen.New(0)).While().EndWhile().I32(0), "LIMIT", "cpu"},
		"cpu in calls":          {big(0).While().I32(0).I32(60 << 20).Call(abi.FnRandom).Drop().EndWhile().I32(0), "LIMIT", "cpu"},
		"calls":                 {nap(wasmgen.New(0)).While().Call(abi.FnNow).Drop().EndWhile().I32(0), "LIMIT", "calls"},
		"trap":                  {nap(wasmgen.New(0)).Op(0x00), "STEP_FAILED", "trap"},
		"journal":               {fill(wasmgen.New(0)).I32(0), "LIMIT", "journal"},
		"journal after a sleep": {fill(nap(wasmgen.New(0))).I32(0), "LIMIT", "journal"},
	} {
		t.Run(name, func(t *testing.T) {
			h := handmade(t, c.m, short)
			first := failure(t, h, "r")
			for _, crash := range []bool{false, true} {
				do(t, h.Retry(ctx, "r", 0))
				if crash {
					h.Crash()
				}
				again := failure(t, h, "r")
				if again.Code.String() != c.code || again.Kind != c.kind || again.Message != first.Message {
					t.Errorf("after a retry: %+v, at first: %+v", again, first)
				}
			}
			do(t, h.Replay(ctx, "r"))
		})
	}
}

// TestReplayOfALimitBehindADelivery replays a run that reached a limit before it had taken all deliveries in its
// journal. A replay is not charged for what it repeats before the run's last call, so it may get further.
func TestReplayOfALimitBehindADelivery(t *testing.T) {
	short := hosttest.WithConfig(func(c *host.Config) { c.MaxFuel, c.MaxSegmentCPU = 50_000_000, 30*time.Second })
	m := big(0)
	work := func() { m.I32(0).I32(30 << 20).Call(abi.FnRandom).Drop() }
	for _, name := range []string{"a", "b"} {
		m.Text(name).I64(1000).Call(abi.FnSleepStart).Drop()
	}
	m.I32(0).I32(0).Call(abi.FnAwait).Drop()
	work()
	m.Text("t").Text("1").Call(abi.FnEmit).Drop()
	work()
	m.I32(0).I32(0).Call(abi.FnAwait).Drop()
	m.While()
	work()
	m.EndWhile().I32(0)
	h := handmade(t, m, short)
	want(t, failure(t, h, "r").Kind, "cpu")
	do(t, h.Replay(ctx, "r"))
}

// TestRetryAfterNothingWasTaken retries, an hour later, a run that failed before or after it took an available
// delivery: it sees the time of the retry.
func TestRetryAfterNothingWasTaken(t *testing.T) {
	for _, takes := range []bool{true, false} {
		h := hosttest.New(t)
		m := wasmgen.New(0)
		m.Text("h").Text("").Text("").Call(abi.FnHookStart).Drop() // its delivery is there at once
		if takes {
			m.Text("h2").Text("").Text("").Call(abi.FnHookStart).Drop()
			m.I32(0).I32(0).Call(abi.FnAwait).Drop()
		}
		m.Call(abi.FnNow).I64(h.Clock.Now().Add(30*time.Minute).UnixMilli()).Less().Op(0x04, 0x40).Op(0x00).End()
		_, err := h.Upload(ctx, "w", m.I32(0).Export(abi.ExportRun).Bytes())
		do(t, err)
		_, err = h.Start(ctx, "w", nil, host.WithRunID("r"))
		do(t, err)
		want(t, h.Finish("r").Status, host.Failed)
		h.Advance(time.Hour)
		do(t, h.Retry(ctx, "r", 0))
		h.Crash()
		if again := h.Finish("r"); again.Status != host.Completed {
			t.Errorf("takes a delivery %v: %s %s", takes, again.Status, again.Error)
		}
		do(t, h.Replay(ctx, "r"))
	}
}
