package wazero

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/calls"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// worker records what it is charged and what it gets.
type worker struct {
	tester
	worked, limit, written, random int64
}

var errWorked = errors.New("no fuel for the bytes")

func (w *worker) Work(bytes int64) error {
	w.worked += bytes
	if w.worked > w.limit {
		return errWorked
	}
	return nil
}

func (w *worker) Output(_ uint32, p []byte)              { w.written += int64(len(p)) }
func (w *worker) Random(p []byte)                        { w.random += int64(len(p)) }
func (w *worker) Log(int32, []byte) int64                { return 0 }
func (w *worker) Stdin(p []byte) int                     { return len(p) }
func (w *worker) Await(h []int64) (int64, error)         { return int64(len(h)), nil }
func (w *worker) MonoNs() int64                          { return 5 }
func (w *worker) WallNs() int64                          { return 5 }
func (w *worker) Result(int64) ([]byte, int64)           { return make([]byte, 100_000), 100_000 }
func (w *worker) Poll(engine.Poll) (engine.Ready, error) { return engine.ReadyClock, nil }

// vectors writes n buffers of a size at address 65536, all the same, and calls a function with them. The last
// argument is the address of the count, which is the guest's answer.
func vectors(fn string, fd int32, n, size int64) []byte {
	const list, at, count = 65536, 16, 8
	m := wasmgen.New(1)
	m.Pages = abi.MaxMemoryBytes / pageBytes
	m.While().Get(0).I64(n).NotLess().Break().Get(0).I64(8).Mul().I64(list).Add().Wrap().I64(size<<32|at).Store64().
		Count(0, 1).EndWhile()
	return m.I32(fd).I32(list).I32(int32(n)).I32(count).Call(fn).Drop().I32(count).Op(0x28, 2, 0).Export(abi.ExportRun).Bytes()
}

func perform(t *testing.T, wasm []byte, w *worker) (int32, error) {
	t.Helper()
	_, m := compile(t, Config{}, wasm)
	in := take(t, m)
	defer in.Release(ctx)
	w.tester.limit = math.MaxInt
	return in.Call(ctx, abi.ExportRun, w)
}

// TestBoundedIO passes more than one call accepts: the rest is left for the next call, and what is accepted is
// charged.
func TestBoundedIO(t *testing.T) {
	for _, c := range []struct {
		fn      string
		fd      int32
		n, size int64
		want    int64
	}{{"wasi:fd_write", 1, 10, 7, 70}, {"wasi:fd_write", 2, 3000, 1, abi.MaxIOVectors}, {"wasi:fd_read", 0, 3000, 1, abi.MaxIOVectors},
		{"wasi:fd_write", 1, 1000, 60 << 20, abi.MaxIOBytes}, {"wasi:fd_write", 1, 2000, 0, 0}} {
		w := &worker{limit: math.MaxInt64}
		n, err := perform(t, vectors(c.fn, c.fd, c.n, c.size), w)
		if int64(n) != c.want || err != nil {
			t.Errorf("%s of %d buffers of %d: %d %v, want %d", c.fn, c.n, c.size, n, err, c.want)
		}
		if w.worked < c.want || w.worked > c.want+abi.MaxIOVectors*8+64<<10 {
			t.Errorf("%s of %d buffers of %d is charged %d bytes", c.fn, c.n, c.size, w.worked)
		}
	}
}

// TestCallsStopWithin stops a guest in the middle of one long call.
func TestCallsStopWithin(t *testing.T) {
	const limit = 10 << 20
	w := &worker{limit: limit}
	if _, err := perform(t, vectors("wasi:fd_write", 1, 1000, 60<<20), w); !errors.Is(err, errWorked) || w.written > limit {
		t.Error("fd_write:", err, w.written)
	}
	m := wasmgen.New(0)
	m.Pages = abi.MaxMemoryBytes / pageBytes
	for _, name := range []string{abi.FnRandom, "wasi:random_get"} {
		w := &worker{limit: limit}
		if _, err := perform(t, m.I32(0).I32(60<<20).Call(name).Drop().I32(0).Export(abi.ExportRun).Bytes(), w); !errors.Is(err, errWorked) ||
			w.random > limit {
			t.Error(name, err, w.random)
		}
	}
}

// TestArgumentsAreCharged calls what copies and scans.
func TestArgumentsAreCharged(t *testing.T) {
	for want, m := range map[int64]*wasmgen.Module{
		60_000: wasmgen.New(0).I32(0).I32(0).I32(60_000).Call(abi.FnLog).Drop(),
		8000:   wasmgen.New(0).I32(0).I32(1000).Call(abi.FnAwait).Drop(),
		50_000: wasmgen.New(0).I64(1).I32(0).I32(50_000).Call(abi.FnResult).Drop(),
		4800:   wasmgen.New(0).I32(0).I32(8192).I32(100).I32(16384).Call("wasi:poll_oneoff").Drop(),
	} {
		w := &worker{limit: math.MaxInt64}
		if _, err := perform(t, m.I32(0).Export(abi.ExportRun).Bytes(), w); err != nil || w.worked != want {
			t.Errorf("charged %d, want %d: %v", w.worked, want, err)
		}
	}
}

// TestStartUpIsMetered ends a start-up that spends its budget in calls, or whose caller has gone.
func TestStartUpIsMetered(t *testing.T) {
	start := func(c func(m *wasmgen.Module) *wasmgen.Module) []byte {
		m := wasmgen.New(0)
		m.Pages = abi.MaxMemoryBytes / pageBytes
		return c(m.While()).EndWhile().Export(abi.ExportInitialize).I32(0).Export(abi.ExportRun).Bytes()
	}
	random := start(func(m *wasmgen.Module) *wasmgen.Module {
		return m.I32(0).I32(abi.MaxMemoryBytes).Call("wasi:random_get").Drop()
	})
	for want, wasm := range map[string][]byte{"computes too long": random,
		"too many calls":    start(func(m *wasmgen.Module) *wasmgen.Module { return m.Call(abi.FnNow).Drop() }),
		"time stands still": start(func(m *wasmgen.Module) *wasmgen.Module { return m.I64(1).Call(abi.FnWaitEvent).Drop() })} {
		_, m := compile(t, Config{}, wasm)
		_, err := m.Instantiate(calls.Admitting(ctx))
		var trap *engine.Trap
		if !errors.As(err, &trap) || trap.Kind != engine.TrapInit || !strings.Contains(trap.Message, want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, m := compile(t, Config{}, random)
	if _, err := m.Instantiate(gone); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
