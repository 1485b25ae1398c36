package host_test

import (
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestCrashInALongActivation kills the host before and after each commit of an activation that takes several commits:
// no chunk of output is lost or duplicated.
func TestCrashInALongActivation(t *testing.T) {
	const chunks = 140
	m := wasmgen.New(1).While().Get(0).I64(chunks).NotLess().Break().
		Text("t").Text(`"`+strings.Repeat("x", 32_000)+`"`).Call(abi.FnEmit).Drop().Count(0, 1).EndWhile().
		Text("1").Call(abi.FnComplete).Drop().I32(0)
	wasm := m.Export(abi.ExportRun).Bytes()
	parts := 0
	for n, crashed := 0, true; crashed; n++ {
		crashed = false
		for _, after := range []bool{false, true} {
			h := hosttest.New(t)
			_, err := h.Upload(ctx, "w", wasm)
			do(t, err)
			h.CrashAt(n, after)
			_, _ = h.Start(ctx, "w", nil, host.WithRunID("r")) // it may have crashed
			h.Settle()
			crashed = crashed || h.Crashed()
			h.Reopen()
			if r, err := h.Get(ctx, "r"); err == nil && r.Status != host.Completed && r.Output > 0 {
				parts++
			}
			_, err = h.Start(ctx, "w", nil, host.WithRunID("r"))
			do(t, err)
			r := h.Finish("r")
			if r.Status != host.Completed || r.Output != chunks {
				t.Errorf("commit %d, after %v: %+v", n, after, r)
			}
			list, err := collect(h.Output(ctx, "r", "", 0))
			do(t, err)
			want(t, len(list), chunks)
			for i, c := range list {
				want(t, int(c.Index), i)
			}
			do(t, h.Replay(ctx, "r"))
		}
	}
	if parts == 0 {
		t.Error("no part was durable before the next one")
	}
}
