package wazero

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/linear"
	"github.com/wfhost/wfhost/host/wasmgen"
)

var ctx = context.Background()

// tester answers the guest; input tells the guest what to do.
type tester struct {
	engine.Host
	slices, limit int
}

var errEmpty = errors.New("no fuel")

func (t *tester) Enter() error { return nil }
func (t *tester) Now() int64   { return 1 }

func (t *tester) Work(int64) error { return nil }
func (t *tester) Refuel() error {
	t.slices++
	if t.slices > t.limit {
		return errEmpty
	}
	return nil
}

// dirty writes to each of its pages up to the 48th, grows by three and writes there; after that it loops, or traps.
func dirty(pages int) []byte {
	m := wasmgen.New(1)
	m.Pages = 40
	write := func() {
		m.While().Get(0).I64(int64(pages) * 65536).NotLess().Break()
		m.Get(0).Wrap().Op(0x41, 7).Store8().Count(0, 4096).EndWhile()
	}
	write()
	m.I32(0).Export(abi.ExportRun)
	m.I32(3).Op(0x40, 0).Drop() // memory.grow
	m.I64(0).Set(0)
	pages += 3
	write()
	m.I32(0).Export("grow")
	m.While().EndWhile().I32(0).Export("loop")
	m.I32(64).Op(0x41, 1).Store8().Op(0x00).Export("trap")
	return m.Bytes()
}

func compile(t *testing.T, cfg Config, wasm []byte) (*machine, *module) {
	t.Helper()
	e, err := New(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(ctx) })
	m, err := e.Compile(ctx, engine.Bytes(wasm))
	if err != nil {
		t.Fatal(err)
	}
	return e.(*machine), m.(*module)
}

func take(t *testing.T, m *module) *instance {
	t.Helper()
	in, err := m.Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return in.(*instance)
}

// resets are the names of all ways.
var resets = []string{"auto", "scan", "drop", "copy", "none"}

// TestReset resets an instance for reuse in every way: it is the same instance, and has the memory, size and globals
// of a new one, after it wrote a little or everything, and after it grew.
func TestReset(t *testing.T) {
	for _, name := range resets {
		for _, pages := range []int{1, 40} {
			for _, interpreter := range []bool{false, true} {
				t.Run(fmt.Sprint(name, pages, interpreter), func(t *testing.T) {
					reset, err := ParseReset(name)
					if err != nil {
						t.Fatal(err)
					}
					_, m := compile(t, Config{Reset: reset, Interpreter: interpreter}, dirty(pages))
					first := take(t, m)
					fresh, size := first.Hash(), len(first.Memory())
					for i, export := range []string{abi.ExportRun, "grow", abi.ExportRun, "grow", "grow"} {
						in := first
						if i > 0 {
							in = take(t, m)
						}
						if in.Hash() != fresh || len(in.Memory()) != size {
							t.Fatalf("instance %d differs from a new one, it has %d bytes", i, len(in.Memory()))
						}
						if reused := in == first; i > 0 && reused != (reset != linear.ResetNone) {
							t.Fatalf("instance %d: used again is %v", i, reused)
						}
						if _, err := in.Call(ctx, export, &tester{limit: 1000}); err != nil {
							t.Fatal(err)
						}
						if in.Hash() == fresh {
							t.Fatal("the hash does not see what was written")
						}
						if resident, held := in.Resident(), in.Release(ctx); held != resident {
							t.Fatalf("instance %d held %d bytes where %d were resident", i, held, resident)
						}
					}
				})
			}
		}
	}
}

// TestBroken closes an instance that trapped, because its state is unknown.
func TestBroken(t *testing.T) {
	_, m := compile(t, Config{}, dirty(1))
	in := take(t, m)
	var trap *engine.Trap
	if _, err := in.Call(ctx, "trap", &tester{limit: 1}); !errors.As(err, &trap) {
		t.Fatal(err)
	}
	in.Release(ctx)
	if !in.mod.IsClosed() || take(t, m) == in {
		t.Fatal("it is used again")
	}
}

// TestFuel ends a loop after the same number of slices, in new and reused instances, compiled and interpreted.
func TestFuel(t *testing.T) {
	for _, cfg := range []Config{{}, {Reset: linear.ResetNone}, {Interpreter: true}} {
		if cfg.Interpreter && testing.Short() { // a minute under the race detector, which cannot find anything there
			continue
		}
		_, m := compile(t, cfg, dirty(1))
		for range 3 {
			in := take(t, m)
			h := &tester{limit: 3}
			if _, err := in.Call(ctx, "loop", h); !errors.Is(err, errEmpty) || h.slices != 4 {
				t.Fatal(err, h.slices)
			}
			in.Release(ctx)
		}
	}
}

// TestPool keeps idle instances within its bytes, the most recently used ones, and none of a closed module.
func TestPool(t *testing.T) {
	e, m := compile(t, Config{PoolBytes: 3 * (instanceBytes + 65536)}, dirty(1))
	var ins []*instance
	for range 8 {
		in := take(t, m)
		if _, err := in.Call(ctx, abi.ExportRun, &tester{limit: 9}); err != nil {
			t.Fatal(err)
		}
		ins = append(ins, in)
	}
	for _, in := range ins {
		in.Release(ctx)
	}
	if n, bytes := e.pool.Len(); bytes > e.cfg.PoolBytes || n == 0 || n > 3 {
		t.Fatalf("%d bytes in %d instances", bytes, n)
	}
	if in := take(t, m); in != ins[7] || !ins[0].mod.IsClosed() {
		t.Fatal("the one that was used last is not used next")
	}
	ins[7].Release(ctx)
	if err := m.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if n, bytes := e.pool.Len(); bytes != 0 || n != 0 || !ins[7].mod.IsClosed() {
		t.Fatal("an instance outlives its module")
	}
	none, m := compile(t, Config{PoolBytes: -1}, dirty(1))
	in := take(t, m)
	in.Release(ctx)
	if n, _ := none.pool.Len(); n != 0 || !in.mod.IsClosed() {
		t.Fatal("an instance is kept by a pool of nothing")
	}
}

// BenchmarkRecycle takes an instance, lets it write to 16 of its pages and releases it.
func BenchmarkRecycle(b *testing.B) {
	for _, name := range resets {
		b.Run(name, func(b *testing.B) {
			reset, err := ParseReset(name)
			if err != nil {
				b.Fatal(err)
			}
			e, err := New(ctx, Config{Reset: reset})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = e.Close(ctx) }()
			m, err := e.Compile(ctx, engine.Bytes(dirty(1)))
			if err != nil {
				b.Fatal(err)
			}
			h := &tester{limit: 1 << 60}
			b.ReportAllocs()
			for b.Loop() {
				in, err := m.Instantiate(ctx)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := in.Call(ctx, abi.ExportRun, h); err != nil {
					b.Fatal(err)
				}
				in.Release(ctx)
			}
		})
	}
}

// TestRecycleAllocates counts the heap allocations of an activation, without the host's: what wazero needs for a
// call.
func TestRecycleAllocates(t *testing.T) {
	_, m := compile(t, Config{}, dirty(1))
	h := &tester{limit: 1 << 60}
	take(t, m).Release(ctx)
	n := testing.AllocsPerRun(100, func() {
		in := take(t, m)
		if _, err := in.Call(ctx, abi.ExportRun, h); err != nil {
			t.Fatal(err)
		}
		in.Release(ctx)
	})
	if n > 1 {
		t.Fatalf("%v allocations, want at most 1", n)
	}
}

// TestFirstMemory makes an instance with the maximum memory: it is not on the Go heap, where it would delay the next
// collection.
func TestFirstMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system has it on the heap")
	}
	for _, cfg := range []Config{{}, {Reset: linear.ResetNone}} {
		w := wasmgen.New(1)
		w.Pages = abi.MaxMemoryBytes / pageBytes
		_, m := compile(t, cfg, w.I32(0).Export(abi.ExportRun).Bytes())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		in := take(t, m)
		runtime.ReadMemStats(&after)
		if len(in.Memory()) != abi.MaxMemoryBytes {
			t.Errorf("the memory has %d bytes", len(in.Memory()))
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > abi.MaxMemoryBytes/8 {
			t.Errorf("%d bytes were allocated for a memory of %d", got, abi.MaxMemoryBytes)
		}
		in.Release(ctx)
	}
}
