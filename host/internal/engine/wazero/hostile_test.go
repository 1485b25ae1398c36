package wazero

import (
	"errors"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestTablesAreBounded grows a table endlessly: it reaches the limit, and further growth is refused.
func TestTablesAreBounded(t *testing.T) {
	for _, interpreter := range []bool{false, true} {
		_, m := compile(t, Config{Interpreter: interpreter}, tables(1, 1, true))
		in := take(t, m)
		for i := range 100 {
			n, err := in.Call(ctx, "grow", &asked{tester: tester{limit: 1 << 60}, in: in})
			if want := int32(-1); err != nil || i > 0 && n != want || i == 0 && n != 1 {
				t.Fatal(interpreter, i, n, err)
			}
		}
		if held := in.onHeap(); held < pointerBytes*1_000_000 || held > 3*pointerBytes*abi.MaxTableElements/2 {
			t.Errorf("interpreted %v: %d bytes are held", interpreter, held)
		}
		in.Release(ctx)
	}
}

// TestReferencesAreBounded makes references to a function endlessly.
func TestReferencesAreBounded(t *testing.T) {
	_, m := compile(t, Config{}, tables(1, 1, false))
	in := take(t, m)
	defer in.Release(ctx)
	var err error
	for range 100 {
		in.mod.Memory().WriteUint32Le(4, 0) // it makes 100,000 more
		_, err = in.Call(ctx, "refer", &asked{tester: tester{limit: 1 << 60}, in: in})
		if err != nil {
			break
		}
	}
	var trap *engine.Trap
	if !errors.As(err, &trap) || trap.Kind != engine.TrapMemory || !strings.Contains(trap.Message, "references") {
		t.Fatal(err)
	}
	if held := sum(in.heap); held > maxHeapBytes+maxHeapBytes/4 {
		t.Errorf("%d bytes are held, the limit is %d", held, maxHeapBytes)
	}
}

// speaker is a host to which a guest prints.
type speaker struct {
	tester
	said string
}

func (s *speaker) Output(_ uint32, p []byte) { s.said += string(p) }
func (s *speaker) Explain(message string) string {
	return s.said + message
}

// TestKindsOfTraps breaks guests down in all ways.
func TestKindsOfTraps(t *testing.T) {
	const denied = 2000 // pages, more than there are
	deny := func() *wasmgen.Module { return wasmgen.New(1).I32(denied).Op(0x40, 0).Drop() }
	divide := func(m *wasmgen.Module) *wasmgen.Module { return m.I64(1).I64(0).Div().Drop() }
	for name, c := range map[string]struct {
		m    *wasmgen.Module
		code int32
		kind string
		want string
	}{
		"unreachable":          {wasmgen.New(0).Op(0x00), 0, engine.TrapGuest, "unreachable"},
		"unreachable, denied":  {deny().Op(0x00), 0, engine.TrapMemory, "out of memory: it has 131072 bytes, the limit is 67108864; unreachable"},
		"another trap, denied": {divide(deny()), 0, engine.TrapGuest, "integer divide by zero"},
		"exit":                 {wasmgen.New(0).I32(3).Call("wasi:proc_exit"), 3, "", ""},
		"exit, denied":         {deny().I32(3).Call("wasi:proc_exit"), 3, engine.TrapMemory, "out of memory: it has 131072 bytes, the limit is 67108864; the workflow called proc_exit(3)"},
		"exit 0, denied":       {deny().I32(0).Call("wasi:proc_exit"), 0, "", ""},
		"grown":                {wasmgen.New(0).I32(1).Op(0x40, 0).Drop().Op(0x00), 0, engine.TrapGuest, "unreachable"},
	} {
		wasm := c.m.I32(0).Export(abi.ExportRun).Bytes()
		for _, interpreter := range []bool{false, true} {
			_, m := compile(t, Config{Interpreter: interpreter}, wasm)
			in := take(t, m)
			code, err := in.Call(ctx, abi.ExportRun, &speaker{tester: tester{limit: 1 << 60}})
			var trap *engine.Trap
			if !errors.As(err, &trap) {
				trap = &engine.Trap{}
			}
			if code != c.code || trap.Kind != c.kind || trap.Message != c.want {
				t.Errorf("%s, interpreted %v: %d %+v, want %+v", name, interpreter, code, trap, c)
			}
			in.Release(ctx)
		}
	}
}

// TestStackOverflow calls without end.
func TestStackOverflow(t *testing.T) {
	_, m := compile(t, Config{}, tables(1, 1, false))
	in := take(t, m)
	defer in.Release(ctx)
	in.mod.Memory().WriteUint32Le(0, 1<<31-1)
	_, err := in.Call(ctx, abi.ExportRun, &asked{tester: tester{limit: 1 << 60}, in: in})
	var trap *engine.Trap
	if !errors.As(err, &trap) || trap.Kind != engine.TrapStack || trap.Message != stackOverflow || trap.Failure() != abi.KindStack {
		t.Fatalf("%+v", err)
	}
}

// TestLastWords reports what a guest printed before it ended itself, in a run and during its start-up.
func TestLastWords(t *testing.T) {
	print := func() *wasmgen.Module {
		m := wasmgen.New(0)
		m.I32(16).I64(wasmgen.DataAt | 5<<32).Store64()
		m.Text("boom\n").Drop().Drop()
		return m.I32(2).I32(16).I32(1).I32(32).Call("wasi:fd_write").Drop()
	}
	_, m := compile(t, Config{}, print().Op(0x00).Export(abi.ExportRun).Bytes())
	in := take(t, m)
	w := &speaker{tester: tester{limit: 1 << 60}}
	_, err := in.Call(ctx, abi.ExportRun, w)
	if err == nil || err.Error() != "boom\nunreachable" {
		t.Errorf("%v", err)
	}
	in.Release(ctx)
	for want, end := range map[string]func(m *wasmgen.Module) *wasmgen.Module{
		"boom (unreachable)":                      func(m *wasmgen.Module) *wasmgen.Module { return m.Op(0x00) },
		"boom (the workflow called proc_exit(2))": func(m *wasmgen.Module) *wasmgen.Module { return m.I32(2).Call("wasi:proc_exit") },
	} {
		_, m := compile(t, Config{}, end(print()).Export(abi.ExportInitialize).I32(0).Export(abi.ExportRun).Bytes())
		_, err := m.Instantiate(ctx)
		var trap *engine.Trap
		if !errors.As(err, &trap) || trap.Message != want || trap.Failure() != abi.KindTrap {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
