package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/engine/linear"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestMemories compares the memory of an iteration with the same iteration only.
func TestMemories(t *testing.T) {
	m := &memories{}
	see := func(run string, n uint32, deliveries uint64, memory byte) {
		m.see(host.WaitInfo{RunID: run, Iteration: n, Deliveries: deliveries, Memory: func() [32]byte { return [32]byte{memory} }})
	}
	for again := range 2 {
		see("a", 0, 0, 1)
		see("a", 0, 1, 2)
		see("a", 1, 0, 3)
		see("b", 0, 0, 4)
		if got := m.points(); got != 4*again {
			t.Errorf("%d memories were compared, and should be %d", got, 4*again)
		}
	}
	for _, at := range []iteration{{"a", 0}, {"a", 1}, {"b", 0}} {
		if d := m.differences(at); len(d) > 0 {
			t.Errorf("%v differs after %v deliveries", at, d)
		}
	}
	for _, other := range []byte{5, 6, 5} {
		see("a", 1, 2, other)
		see("a", 1, 0, other)
	}
	if d := m.differences(iteration{"a", 1}); !slices.Equal(d, []uint64{0, 2}) {
		t.Errorf("the memory differs after %v deliveries", d)
	}
	if d := m.differences(iteration{"a", 0}); len(d) > 0 {
		t.Errorf("another iteration differs after %v deliveries", d)
	}
}

// forgetful is a guest whose memory at a wait differs from its replay if counting is set: it counts how often it was
// thawed. Without an input it is the workflow parent, else child, or counter, which continues as new once.
func forgetful(counting bool) []byte {
	const kind, thawed = 0, 8 // addresses: the first letter of the input, and the counter
	m := wasmgen.New(1)
	wait := func() {
		m.I64(-1).Call(abi.FnWaitEvent).I64(-abi.Freeze.Neg()).Add().IfZero64().I32(0).Op(0x0f).End()
		m.I32(kind).Load8().I64('0').Sub().IfZero64().Text("1").I32(0).I32(0).Call(abi.FnContinueAsNew).End()
		m.Text("1").Call(abi.FnComplete).Drop().I32(0)
	}
	m.I32(kind).I32(1).Call(abi.FnInput).IfZero64().
		Text("first").Text("child").Text("2").I32(0).I32(0).Call(abi.FnChildStart).Drop().Op(0x05). // else
		Text("nap").I64(10_000).Call(abi.FnSleepStart).Drop().End()
	wait()
	m.Export(abi.ExportRun)
	if counting {
		m.I32(thawed).I32(thawed).Load8().I64(1).Add().Wrap().Store8()
	}
	wait()
	m.Export(abi.ExportThaw)
	return m.Text(`{"workflows":[{"name":"child"},{"name":"counter"},{"name":"parent"}]}`).Call(abi.FnComplete).Drop().
		Export(abi.ExportDescribe).Bytes()
}

// TestMemoryBites finds the runs and iterations of a workflow whose memory differs, including children.
func TestMemoryBites(t *testing.T) {
	const size = 65536
	im := linear.NewImage(make([]byte, size), linear.ResetAuto)
	defer im.Close()
	memory := linear.New(im)
	defer memory.Free()
	if _, ok := memory.Diff(size); !ok {
		t.Skip("this system does not tell which pages were written, so that nothing is frozen")
	}
	for _, counting := range []bool{true, false} {
		report, err := Check(t.Context(), forgetful(counting), Options{Only: []string{"counter", "parent"}, CacheDir: host.UserCacheDir()})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, o := range report.Outcomes {
			all = append(all, o.Faults...)
		}
		for _, at := range []iteration{{"counter", 0}, {"counter", 1}, {"parent", 0}, {"parent.2", 0}} {
			fault := fmt.Sprintf("with kept instances: the memory of run %s, iteration %d, and of its replay differ, after [0] deliveries", at.run, at.n)
			if strings.Contains(strings.Join(all, "\n"), fault) != counting {
				t.Errorf("counting %v: %q is found wrongly among %q", counting, fault, all)
			}
		}
		if report.Points == 0 {
			t.Error("no memories were compared")
		}
	}
}
