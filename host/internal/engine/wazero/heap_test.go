package wazero

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/wfhost/wfhost/abi"
)

// part is a section of a module with a number of elements.
func part(id byte, n int, items ...byte) []byte {
	b := append(binary.AppendUvarint(nil, uint64(n)), items...)
	return append(binary.AppendUvarint([]byte{id}, uint64(len(b))), b...)
}

func code(ops ...byte) []byte {
	b := append(append([]byte{0}, ops...), 0x0b)
	return append(binary.AppendUvarint(nil, uint64(len(b))), b...)
}

// tables makes a module with a table of elements, the first named of which refer to a function. Its exports:
//
//	workflow_run   calls itself as often as its memory says, and then asks for the time
//	grow           makes the table larger by a million elements, if it may grow
//	refer          makes 100,000 references to a function
func tables(elements, named int, grows bool) []byte {
	b := []byte("\x00asm\x01\x00\x00\x00")
	b = append(b, part(1, 3, 0x60, 0, 1, 0x7f, 0x60, 1, 0x7f, 1, 0x7f, 0x60, 0, 1, 0x7e)...)
	imports := append([]byte{byte(len(abi.ImportModule))}, abi.ImportModule...)
	imports = append(append(imports, 3), "now"...)
	b = append(b, part(2, 1, append(imports, 0, 2)...)...)
	b = append(b, part(3, 4, 0, 0, 0, 1)...)
	b = append(b, part(4, 1, append([]byte{0x70, 0}, binary.AppendUvarint(nil, uint64(elements))...)...)...)
	b = append(b, part(5, 1, 0, 1)...)
	var exports []byte
	for i, name := range []string{abi.ExportRun, "grow", "refer"} {
		exports = append(append(append(exports, byte(len(name))), name...), 0, byte(i+1))
	}
	b = append(b, part(7, 4, append(exports, 6, 'm', 'e', 'm', 'o', 'r', 'y', 2, 0)...)...)
	segment := append([]byte{0, 0x41, 0, 0x0b}, binary.AppendUvarint(nil, uint64(named))...)
	for range named {
		segment = append(segment, 1)
	}
	b = append(b, part(9, 1, segment...)...)
	run := code(0x41, 0, 0x28, 2, 0, 0x10, 4)
	grow := code(0x41, 0)
	if grows {
		grow = code(0xd0, 0x70, 0x41, 0xc0, 0x84, 0x3d, 0xfc, 15, 0) // 1,000,000
	}
	// while memory[4] < 100000 { memory[4]++; ref.func 1; drop }
	refer := code(0x03, 0x40, 0x41, 4, 0x41, 4, 0x28, 2, 0, 0x41, 1, 0x6a, 0x36, 2, 0, 0xd2, 1, 0x1a,
		0x41, 4, 0x28, 2, 0, 0x41, 0xa0, 0x8d, 6, 0x48, 0x0d, 0, 0x0b, 0x41, 0)
	// if n == 0 { now(); 0 } else { f(n-1) + 1 }
	deep := code(0x20, 0, 0x45, 0x04, 0x7f, 0x10, 0, 0xa7, 0x41, 0, 0x71, 0x05, 0x20, 0, 0x41, 1, 0x6b, 0x10, 4, 0x41, 1, 0x6a, 0x0b)
	var bodies []byte
	for _, c := range [][]byte{run, grow, refer, deep} {
		bodies = append(bodies, c...)
	}
	return append(b, part(10, 4, bodies...)...)
}

// asked inspects an instance from within a call.
type asked struct {
	tester
	in   *instance
	held int64
}

func (a *asked) Now() int64 {
	a.held = a.in.Resident()
	return 0
}

func callExport(t *testing.T, in *instance, export string) {
	t.Helper()
	if _, err := in.Call(ctx, export, &asked{tester: tester{limit: 1 << 60}, in: in}); err != nil {
		t.Fatal(err)
	}
}

// inUse returns the used bytes of the Go heap.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// TestHeap compares the reported and the actual heap use of instances.
func TestHeap(t *testing.T) {
	for name, c := range map[string]struct {
		elements, named int
		grows           bool
		export          string
		within          float64
	}{
		"small":            {1, 1, false, "", 0.5},
		"table":            {1 << 20, 1, false, "", 0.05},
		"references":       {1 << 18, 1 << 18, false, "", 0.1},
		"table that grows": {1 << 15, 1, true, "grow", 0.25},
		"references made":  {1, 1, false, "refer", 0.1},
	} {
		t.Run(name, func(t *testing.T) {
			_, m := compile(t, Config{PoolBytes: -1}, tables(c.elements, c.named, c.grows))
			take(t, m).Release(ctx) // the image
			const n = 8
			var ins []*instance
			var said int64
			before := inUse()
			for range n {
				in := take(t, m)
				if c.export != "" {
					callExport(t, in, c.export)
				} else if _, err := in.function(abi.ExportRun); err != nil {
					t.Fatal(err)
				}
				ins = append(ins, in)
				said += in.onHeap()
			}
			held := inUse() - before
			t.Logf("%d bytes are held for each, %d were said, a new one is said to take %d", held/n, said/n, m.Overhead())
			if off := float64(said-held) / float64(held); off > c.within || off < -c.within {
				t.Errorf("%d bytes are held for each, %d were said", held/n, said/n)
			}
			if c.export == "" && m.Overhead() != said/n && c.named == 1 {
				t.Errorf("a new one is said to take %d", m.Overhead())
			}
			for _, in := range ins {
				in.Release(ctx)
			}
		})
	}
}

// TestStack makes deep calls: during the call and after it the stack counts, and an instance does not keep a large
// one.
func TestStack(t *testing.T) {
	e, m := compile(t, Config{}, tables(1, 1, false))
	in := take(t, m)
	var small, large asked
	for _, c := range []struct {
		deep uint32
		h    *asked
	}{{0, &small}, {100_000, &large}} {
		in.mod.Memory().WriteUint32Le(0, c.deep)
		c.h.in, c.h.limit = in, 1<<60
		if _, err := in.Call(ctx, abi.ExportRun, c.h); err != nil {
			t.Fatal(err)
		}
	}
	if small.held > 64<<10 || large.held < 16*100_000 || large.held > 128*100_000 {
		t.Errorf("%d bytes are held, %d by 100,000 calls", small.held, large.held)
	}
	if n := in.Resident(); n < large.held/2 {
		t.Errorf("after the call, %d bytes are held", n)
	}
	before := inUse()
	in.Release(ctx)
	if freed := before - inUse(); freed < large.held/2 {
		t.Errorf("%d bytes are given up", freed)
	}
	again := take(t, m)
	if _, bytes := e.pool.Len(); again != in || again.Resident() > 64<<10 || bytes != 0 {
		t.Errorf("%d bytes are kept between activations", again.Resident())
	}
}

// TestReferencesAreNotKept makes many references in an instance: it is not reused.
func TestReferencesAreNotKept(t *testing.T) {
	_, m := compile(t, Config{}, tables(1, 1, false))
	in := take(t, m)
	callExport(t, in, "refer")
	in.Release(ctx)
	if !in.mod.IsClosed() {
		t.Error("it is used again, and holds on to what nobody refers to")
	}
}

// TestHeapIsFound fails when wazero has changed the internals that this package reads.
func TestHeapIsFound(t *testing.T) {
	for _, interpreter := range []bool{false, true} {
		_, m := compile(t, Config{Interpreter: interpreter}, tables(3, 2, false))
		in := take(t, m)
		if _, err := in.function(abi.ExportRun); err != nil {
			t.Fatal(err)
		}
		stack := in.stacks[0]
		want := 2 // the table, and the references
		if interpreter {
			want = 1
		}
		if len(in.heap) != want || in.heap[0].bytes() != 3*pointerBytes || stack.slice == unseen.slice {
			t.Errorf("interpreted %v: %v, a stack of %v", interpreter, in.heap, stack)
		}
		if !interpreter && (in.heap[1].slice.Len() != 2 || stack.bytes() != stackBytes) {
			t.Errorf("%d references, a stack of %d bytes", in.heap[1].slice.Len(), stack.bytes())
		}
		in.Release(ctx)
	}
}
