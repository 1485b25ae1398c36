// Package conform tests that an engine does what package engine specifies, with the same results as every other
// engine, bit by bit. The tests of an engine call Run.
package conform

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// Run tests the engine that make returns.
func Run(t *testing.T, make func(t *testing.T) engine.Engine) {
	for name, test := range map[string]func(t *testing.T, e engine.Engine){
		"NaNs": nans, "chains": chains, "traps": traps, "fuel": fuel, "memory": memory, "calls": callsOfTheHost, "start-up": startUp,
		"bad start-up": badStartUp, "again": again, "fork": forks, "freeze": freezes, "exports": exports, "numbers": numbers,
		"stopped": stopped,
	} {
		t.Run(name, func(t *testing.T) { test(t, make(t)) })
	}
}

// traps makes guests fail in every way that a journal names.
func traps(t *testing.T, e engine.Engine) {
	const denied = 2000 // pages, more than the limit
	deny := func() *wasmgen.Module { return wasmgen.New(1).I32(denied).Op(0x40, 0).Drop() }
	const outOfMemory = "out of memory: it has 131072 bytes, the limit is 67108864; "
	nan := []byte{0x44, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f}
	for name, c := range map[string]struct {
		m    *wasmgen.Module
		code int32
		kind string
		want string
	}{
		"unreachable":          {wasmgen.New(0).Op(0x00), 0, engine.TrapGuest, "unreachable"},
		"unreachable, denied":  {deny().Op(0x00), 0, engine.TrapMemory, outOfMemory + "unreachable"},
		"another trap, denied": {deny().I64(1).I64(0).Div().Drop(), 0, engine.TrapGuest, "integer divide by zero"},
		"overflow":             {wasmgen.New(0).I64(-1 << 63).I64(-1).Op(0x7f).Drop(), 0, engine.TrapGuest, "integer overflow"},
		"conversion":           {wasmgen.New(0).Op(nan...).Op(0xaa).Drop(), 0, engine.TrapGuest, "invalid conversion to integer"},
		"out of bounds":        {wasmgen.New(0).I32(-1).Op(0x2d, 0, 0).Drop(), 0, engine.TrapGuest, "out of bounds memory access"},
		"exit":                 {wasmgen.New(0).I32(3).Call("wasi:proc_exit"), 3, "", ""},
		"exit 0":               {wasmgen.New(0).I32(0).Call("wasi:proc_exit"), 0, "", ""},
		"exit, denied": {deny().I32(3).Call("wasi:proc_exit"), 3, engine.TrapMemory,
			outOfMemory + "the workflow called proc_exit(3)"},
		"bad pointer": {wasmgen.New(0).I32(-8).I32(4).Call(abi.FnComplete).Drop(), 0, engine.TrapGuest,
			"a call was given 4 bytes at address 4294967288, outside of the memory of 131072 bytes"},
		"said": {wasmgen.New(0).I32(0).Text("why").Drop().Op(0x36, 2, 0).I32(4).I32(3).Op(0x36, 2, 0).
			I32(2).I32(0).I32(1).I32(8).Call("wasi:fd_write").Drop().Op(0x00), 0, engine.TrapGuest, "whyunreachable"},
		"stack": {recursion(), 0, engine.TrapStack, "stack overflow"},
	} {
		code, err := run(t, e, c.m.I32(0).Export(abi.ExportRun).Bytes(), newHost())
		var trap *engine.Trap
		if errors.As(err, &trap) {
			if trap.Kind != c.kind || trap.Message != c.want {
				t.Errorf("%s: a trap of kind %s: %q, want %s: %q", name, trap.Kind, trap.Message, c.kind, c.want)
			}
		} else if err != nil || c.kind != "" {
			t.Errorf("%s: %v, want a trap of kind %s", name, err, c.kind)
		}
		if code != c.code {
			t.Errorf("%s: it ended with code %d, want %d", name, code, c.code)
		}
	}
}

// recursion recurses without end: its first export is the function after its imports.
func recursion() *wasmgen.Module { return wasmgen.New(40).Op(0x10, 0).Drop() }

// fuel runs a guest that computes: it asks for fuel as often as on every other engine, and is stopped without fuel.
func fuel(t *testing.T, e engine.Engine) {
	const turns, wantGrants = 3_000_000, 17
	m := wasmgen.New(1).While().Get(0).I64(turns).NotLess().Break().Count(0, 1).
		Get(0).I64(3).Rem().I64(5).Rem().I64(7).Div().I64(9).Div().Drop().EndWhile().I32(7).Export(abi.ExportRun)
	wasm := m.While().I64(9).I64(5).Rem().I64(3).Rem().I64(7).Div().I64(1).Div().Drop().EndWhile().I32(0).Export("forever").Bytes()
	h := newHost()
	if code, err := run(t, e, wasm, h); err != nil || code != 7 || h.grants != wantGrants {
		t.Errorf("it ended with %d and %v after %d grants, want 7 after %d", code, err, h.grants, wantGrants)
	}
	h = newHost()
	h.limit = 20
	in := instance(t, module(t, e, wasm))
	defer in.Release(context.Background())
	if _, err := in.Call(context.Background(), "forever", h); !errors.Is(err, errFuel) || h.grants != h.limit+1 {
		t.Errorf("%v after %d grants", err, h.grants)
	}
}

// memory grows a memory to the limit and no further.
func memory(t *testing.T, e engine.Engine) {
	m := wasmgen.New(1)
	m.Pages = 3
	m.While().I32(100).Op(0x40, 0).I32(-1).Op(0x46, 0x0d, 1).Count(0, 1).EndWhile().Get(0).Wrap().Export(abi.ExportRun)
	in := instance(t, module(t, e, m.Bytes()))
	defer in.Release(context.Background())
	n, err := in.Call(context.Background(), abi.ExportRun, newHost())
	if want := int32((1024 - 3) / 100); err != nil || n != want {
		t.Errorf("it grew %d times, want %d: %v", n, want, err)
	}
	if want := int64(3+1000) * 65536; in.Size() != want || in.Resident() < 1 {
		t.Errorf("it has %d bytes, want %d, %d resident", in.Size(), want, in.Resident())
	}
}

// callsOfTheHost passes values of every shape to the host and back.
func callsOfTheHost(t *testing.T, e engine.Engine) {
	m := wasmgen.New(0)
	m.I32(0).I32(100).Call(abi.FnInput).Drop()
	m.I32(100).I32(50).Call(abi.FnRandom).Drop()
	m.I32(160).Call(abi.FnNow).Store64()
	m.I32(0).I64(1).I32(168).Call("wasi:clock_time_get").Drop()
	m.I32(1).I64(1).I32(176).Call("wasi:clock_time_get").Drop()
	m.I32(184).Call("env:seed").Op(0x39, 3, 0) // f64.store
	m.I32(0).I32(200).Call(abi.FnComplete).Drop()
	h := newHost()
	if code, err := run(t, e, m.I32(5).Export(abi.ExportRun).Bytes(), h); err != nil || code != 5 {
		t.Fatal(code, err)
	}
	random := make([]byte, 50)
	h.Random(random)
	if b := h.completed; len(b) == 200 && math.Float64frombits(binary.LittleEndian.Uint64(b[184:])) != seedOfHost {
		t.Errorf("the seed is % x", b[184:192])
	}
	if got := string(h.completed); len(got) != 200 || !strings.HasPrefix(got, "the input\x00") || got[100:150] != string(random) ||
		got[160:184] != "\x7b\x68\xe5\xcf\x8b\x01\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00" {
		t.Errorf("%q", got)
	}
	if h.calls != 7 || h.worked != 9+50+8+200 {
		t.Errorf("%d calls, which were charged %d bytes", h.calls, h.worked)
	}
}

// seedOfHost is the result of env.seed for the first random bytes of a host, 5a 5b 58 59 5e 5f 5c 5d.
const seedOfHost = float64(0x5d5c5f5e59585b5a>>11) / (1 << 53)

// startUp compares the state of new instances with the state on every other engine, and runs them.
func startUp(t *testing.T, e engine.Engine) {
	for name, c := range map[string]struct {
		recyclable bool
		want       string
	}{"recyclable": {true, "080b8c157da3e274"}, "not recyclable": {false, "53e0989f6d18971c"}} {
		m := module(t, e, starting(c.recyclable))
		for range 2 {
			in := instance(t, m)
			if sum := in.Hash(); fmt.Sprintf("%x", sum[:8]) != c.want {
				t.Errorf("%s: a new instance has the sum %x, want %s", name, sum[:8], c.want)
			}
			if code, err := in.Call(context.Background(), abi.ExportRun, newHost()); err != nil || code != 42+'d' {
				t.Errorf("%s: %d %v", name, code, err)
			}
			in.Release(context.Background())
		}
	}
}

// badStartUp tests start-ups that the engine must refuse.
func badStartUp(t *testing.T, e engine.Engine) {
	for want, m := range map[string]*wasmgen.Module{
		"these run once per module": wasmgen.New(0).I32(0).I32(0).I64(1).Call(abi.FnSleep).Drop(),
		"proc_exit(9)":              wasmgen.New(0).I32(9).Call("wasi:proc_exit"),
		"integer divide by zero":    wasmgen.New(0).I64(1).I64(0).Div().Drop(),
		"the table is missing\nno bread (integer divide by zero)": wasmgen.New(0).I32(1).Text("all is well").Call(abi.FnLog).Drop().
			I32(2).Text("the table is missing").Call(abi.FnLog).Drop().
			I32(3).Text("no bread").Call(abi.FnLog).Drop().I64(1).I64(0).Div().Drop(),
	} {
		mod := module(t, e, m.Export(abi.ExportInitialize).I32(0).Export(abi.ExportRun).Bytes())
		in, err := mod.Instantiate(context.Background())
		var trap *engine.Trap
		if !errors.As(err, &trap) || !strings.Contains(trap.Message, want) || strings.Contains(trap.Message, "all is well") ||
			trap.Kind != engine.TrapInit && trap.Kind != engine.TrapExit {
			t.Errorf("%v, want %q", err, want)
			if err == nil {
				in.Release(context.Background())
			}
		}
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	mod := module(t, e, wasmgen.New(0).While().EndWhile().Export(abi.ExportInitialize).I32(0).Export(abi.ExportRun).Bytes())
	if _, err := mod.Instantiate(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a start-up that nobody waits for ends with %v", err)
	}
}

// again reuses instances: no guest can tell.
func again(t *testing.T, e engine.Engine) {
	m := wasmgen.New(1)
	m.Pages = 4
	m.I32(0).I32(0).Op(0x29, 3, 0).I64(1).Add().Store64()
	m.I32(3).Op(0x40, 0).Drop()
	m.I32(6<<16).I32(1).Op(0x3a, 0, 0)
	mod := module(t, e, m.I32(0).Op(0x28, 2, 0).Export(abi.ExportRun).Bytes())
	var sums [2][32]byte
	for i := range 4 {
		in := instance(t, mod)
		before := in.Hash()
		n, err := in.Call(context.Background(), abi.ExportRun, newHost())
		if err != nil || n != 1 {
			t.Fatal(i, n, err)
		}
		if after := in.Hash(); i == 0 {
			sums = [2][32]byte{before, after}
		} else if sums != [2][32]byte{before, after} {
			t.Error("an instance differs from the first one")
		}
		in.Release(context.Background())
	}
	e.Trim(context.Background())
	if closed, left := e.Trim(context.Background()); closed+left != 0 {
		_, left = e.Trim(context.Background())
		if left != 0 {
			t.Errorf("%d instances are idle after three looks", left)
		}
	}
}

// exports asks for exports, and calls missing ones.
func exports(t *testing.T, e engine.Engine) {
	m := module(t, e, wasmgen.New(0).I32(0).Export(abi.ExportRun).Bytes())
	if !m.HasExport(abi.ExportRun) || m.HasExport(abi.ExportMemory) || m.HasExport("nothing") {
		t.Error("the exports are others")
	}
	if m.Bytes() <= 0 || m.Overhead() <= 0 {
		t.Error("it takes nothing")
	}
	in := instance(t, m)
	defer in.Release(context.Background())
	_, err := in.Call(context.Background(), "nothing", newHost())
	if err == nil || !strings.Contains(err.Error(), "does not export nothing") {
		t.Error(err)
	}
	if _, err := e.Compile(context.Background(), engine.Bytes([]byte("\x00asm\x01\x00\x00\x00\x0a\x05\x01\x00"))); err == nil {
		t.Error("nonsense is compiled")
	}
}

// stopped stops a guest from within a call: Call must return the same error.
func stopped(t *testing.T, e engine.Engine) {
	why := errors.New("why")
	h := newHost()
	h.await = func() (int64, error) { return 0, why }
	m := wasmgen.New(0).I32(0).I32(0).Call(abi.FnAwait).Drop().I32(0).I32(1).Op(0x3a, 0, 0)
	in := instance(t, module(t, e, m.I32(0).Export(abi.ExportRun).Bytes()))
	defer in.Release(context.Background())
	before := in.Hash()
	//nolint:errorlint // it must be the error itself
	if _, err := in.Call(context.Background(), abi.ExportRun, h); err != why {
		t.Error(err)
	}
	if in.Hash() != before {
		t.Error("the guest went on")
	}
}
