package host_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// wildNumbers are arguments that are wrong in some places: addresses and lengths at the limits of the memory and of
// the types.
var wildNumbers = []int64{0, 1, -1, 7, 16, 4096, 65535, 65536, 131071, 131072, 1 << 20, 1<<31 - 1, -1 << 31, -8, 1 << 40}

// TestWildPointers calls functions with invalid arguments in random order, between sleeps. The run completes, fails
// or waits. If it were stuck, it would differ from its own journal.
func TestWildPointers(t *testing.T) {
	runs := 500
	if testing.Short() {
		runs = 100
	}
	h := hosttest.New(t)
	type function struct {
		name string
		sig  abi.Signature
	}
	var all []function
	for _, name := range slices.Sorted(maps.Keys(abi.Functions)) {
		if name == abi.FnContinueAsNew { // continues as new forever if the arguments are valid
			continue
		}
		all = append(all, function{name, abi.Functions[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(abi.WASIFunctions)) {
		all = append(all, function{"wasi:" + name, abi.WASIFunctions[name]})
	}
	for seed := range runs {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		m := wasmgen.New(0)
		for range 1 + r.IntN(4) {
			f := all[r.IntN(len(all))]
			for _, p := range f.sig.Params {
				v := wildNumbers[r.IntN(len(wildNumbers))]
				if p == abi.I32 {
					m.I32(int32(v))
				} else {
					m.I64(v)
				}
			}
			m.Call(f.name)
			if len(f.sig.Results) > 0 {
				m.Drop()
			}
			m.I32(4096).I32(4).I64(1).Call(abi.FnSleep).Drop() // its name is what is there
		}
		m.Text("data").Drop().Drop()
		name := "wild"
		if _, err := h.Upload(ctx, name, m.I32(0).Export(abi.ExportRun).Bytes()); err != nil {
			t.Fatal(seed, err)
		}
		run, err := h.Start(ctx, name, nil)
		if err != nil {
			t.Fatal(seed, err)
		}
		got := h.Finish(run.ID)
		if got.Status == host.Stuck {
			t.Errorf("seed %d: %s", seed, got.Reason)
		}
		if !got.Status.Terminal() {
			do(t, h.Terminate(ctx, run.ID))
		}
	}
}
