package host_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestGuestsThatGrow has twelve guests grow to nearly the maximum while there is memory for one, beside small guests.
// Some give up their instances, all complete, and the total stays within the limit, except for what computing guests
// touch within a slice.
func TestGuestsThatGrow(t *testing.T) {
	const limit, large, small = 128 << 20, 12, 20
	var crowded atomic.Int64
	h := hosttest.New(t, hosttest.WithConfig(func(c *host.Config) {
		c.GuestBytes = limit
		c.Events.Activation = func(a host.ActivationInfo) {
			if a.End == "crowded" {
				crowded.Add(1)
			}
		}
	}))
	const pages = 800 // of 64 KiB
	grow := wasmgen.New(2).Text("nap").I64(1).Call(abi.FnSleep).Drop().I32(pages).Op(0x40, 0).Drop().
		I64(1<<16).Set(0).While().Get(0).I64(pages<<16).NotLess().Break().
		Get(0).Op(0xa7).I32(1).Op(0x36, 2, 0). // i32.store at the index
		I64(0).Set(1).While().Get(1).I64(5000).NotLess().Break().Count(1, 1).EndWhile().
		Count(0, 4096).EndWhile()
	stay := wasmgen.New(0).Text("nap").I64(1).Call(abi.FnSleep).Drop()
	for name, m := range map[string]*wasmgen.Module{"grow": grow, "stay": stay} {
		if _, err := h.Upload(ctx, name, m.Text("1").Call(abi.FnComplete).Drop().I32(0).Export(abi.ExportRun).Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range large + small {
		workflow := "grow"
		if i >= large {
			workflow = "stay"
		}
		if _, err := h.Start(ctx, workflow, nil, host.WithRunID(fmt.Sprint("r", i))); err != nil {
			t.Fatal(err)
		}
	}
	h.Settle()
	h.Clock.Advance(1e9)
	h.Settle()
	for i := range large + small {
		if r, err := h.Get(ctx, fmt.Sprint("r", i)); r.Status != host.Completed || err != nil {
			t.Errorf("%s is %s: %s, %v", r.ID, r.Status, r.Reason, err)
		}
	}
	if crowded.Load() == 0 {
		t.Error("none gave its instance up")
	}
	if held := h.Stats().GuestBytes; held != 0 {
		t.Errorf("%d bytes are counted in the end", held)
	}
	t.Logf("%d gave their instance up", crowded.Load())
}

// TestCommitsOfALongActivation has a guest append 8 MB without a wait: this takes several commits, so that other runs
// do not wait for all of it.
func TestCommitsOfALongActivation(t *testing.T) {
	m := wasmgen.New(1).While().Get(0).I64(250).NotLess().Break().
		Text("t").Text(`"`+strings.Repeat("x", 32_000)+`"`).Call(abi.FnEmit).Drop().Count(0, 1).EndWhile().
		Text("1").Call(abi.FnComplete).Drop().I32(0)
	h := handmade(t, m)
	h.Settle()
	if r, err := h.Get(ctx, "r"); r.Status != host.Completed || err != nil {
		t.Fatal(r.Status, r.Error, err)
	}
	if n := h.Commits(); n < 2 { // it would otherwise be one; the exact number depends on the disk
		t.Errorf("%d commits", n)
	}
}
