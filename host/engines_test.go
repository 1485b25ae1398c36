package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/wazero"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// bothEngines are those that every program has.
var bothEngines = []string{host.EngineCompiler, host.EngineInterpreter}

// skipping runs a host over a data directory with a clock that stands still, until stop is called.
func skipping(t *testing.T, dir string) (h *host.Host, stop func()) {
	t.Helper()
	h, err := host.Open(ctx, host.Config{Dir: dir, SkipSleeps: true})
	do(t, err)
	run, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- h.Run(run) }()
	return h, func() {
		cancel()
		do(t, <-done)
		do(t, h.Close())
	}
}

// TestVerifyEngines replays random Go workflows on both engines: final memory and results are equal.
func TestVerifyEngines(t *testing.T) {
	dir := t.TempDir()
	n := min(workflows(), 20)
	if testing.Short() {
		n = min(n, 3)
	}
	h, stop := skipping(t, dir)
	_, err := h.Upload(ctx, "random", hosttest.Build(t, "testdata/random"))
	do(t, err)
	for seed := range n {
		r, err := h.Start(ctx, "random", seed)
		do(t, err)
		_, err = h.ResultRaw(ctx, r.ID)
		do(t, err)
	}
	stop()
	r, err := host.Verify(ctx, dir, host.Config{}, host.VerifyOptions{Engines: bothEngines})
	do(t, err)
	if !r.Sound() || r.Replayed != int64(n) || !slices.Equal(r.Engines, bothEngines) {
		t.Errorf("%+v", r)
	}
}

// crooked is wazero's compiler with wrong answers for some calls.
type crooked struct{ engine.Engine }

type crookedModule struct{ engine.Module }

type crookedInstance struct{ engine.Instance }

// crookedHost returns another run id, or another time, when the guest asks for it.
type crookedHost struct{ engine.Host }

func (c crooked) Compile(ctx context.Context, s engine.Source) (engine.Module, error) {
	m, err := c.Engine.Compile(ctx, s)
	return crookedModule{m}, err
}

func (m crookedModule) Instantiate(ctx context.Context) (engine.Instance, error) {
	in, err := m.Module.Instantiate(ctx)
	return crookedInstance{in}, err
}

func (in crookedInstance) Call(ctx context.Context, export string, h engine.Host) (int32, error) {
	return in.Instance.Call(ctx, export, crookedHost{h})
}

func (h crookedHost) Now() int64            { return h.Host.Now() + 1 }
func (h crookedHost) Explain(string) string { return "" }

func init() {
	engine.Register("crooked", func(ctx context.Context) (engine.Engine, error) {
		e, err := wazero.New(ctx, wazero.Config{})
		return crooked{e}, err
	})
}

// TestEnginesDiffer replays workflows on an engine that shows another time: the difference is found at the first
// entry where it shows.
func TestEnginesDiffer(t *testing.T) {
	nap := func(m *wasmgen.Module, name string) *wasmgen.Module {
		return m.Text(name).I64(1000).Call(abi.FnSleep).Drop()
	}
	now := func(m *wasmgen.Module) *wasmgen.Module { return m.I32(8).Call(abi.FnNow).Store64() }
	one := func(m *wasmgen.Module) []byte { return m.I32(0).Export(abi.ExportRun).Bytes() }
	for name, c := range map[string]struct {
		wasm []byte
		want string
		ends bool
	}{
		"the same":   {one(nap(wasmgen.New(0), "a")), "", true},
		"memory":     {one(nap(now(nap(wasmgen.New(0), "a")), "b")), "differ at entry 4: where the workflow waits behind it", true},
		"at the end": {one(now(nap(wasmgen.New(0), "a"))), "differ behind entry 3: the memory at the end", true},
		"waiting":    {one(nap(now(wasmgen.New(0)), "a")), "differ at entry 2: where the workflow waits behind it", false},
		"result": {one(now(nap(wasmgen.New(0), "a")).I32(8).I32(8).Call(abi.FnComplete).Drop().I32(8).I64(0).Store64()),
			"differ behind entry 3: with interpreter", true},
		"calls": {one(nap(now(nap(wasmgen.New(0), "a")).I32(8).Op(0x2d, 0, 0).I32(1).Op(0x71, 0x04, 0x40).Text("b").I64(1000).
			Call(abi.FnSleep).Drop().End(), "c")), ": it returned; with crooked to entry 3: replay differs from the journal at entry 4", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			h, stop := skipping(t, dir)
			if !c.ends {
				stop()
				h, stop = onDisk(t, dir, 0)
			}
			_, err := h.Upload(ctx, "w", c.wasm)
			do(t, err)
			_, err = h.StartRaw(ctx, "w", nil, host.WithRunID("r"))
			do(t, err)
			if c.ends {
				_, err = h.ResultRaw(ctx, "r")
				do(t, err)
			}
			stop()
			r, err := host.Verify(ctx, dir, host.Config{Interpreter: true}, host.VerifyOptions{Engines: []string{host.EngineInterpreter, "crooked"}})
			do(t, err)
			var texts []string
			for _, p := range r.Problems {
				texts = append(texts, fmt.Sprint(p.Kind, " ", p.Run, ": ", p.Text))
			}
			all := strings.Join(texts, "\n")
			if c.want == "" && !r.Sound() || c.want != "" && (len(texts) != 1 || !strings.HasPrefix(all, "engine r: ") || !strings.Contains(all, c.want)) {
				t.Errorf("%q, want %q", all, c.want)
			}
		})
	}
}

// TestEnginesUncompared replays a workflow that overflows the engine's stack.
func TestEnginesUncompared(t *testing.T) {
	dir := t.TempDir()
	h, stop := skipping(t, dir)
	_, err := h.Upload(ctx, "deep", wasmgen.New(4).Op(0x10, 0).Drop().I32(0).Export(abi.ExportRun).Bytes()) // it calls itself
	do(t, err)
	r, err := h.StartRaw(ctx, "deep", nil)
	do(t, err)
	_, err = h.ResultRaw(ctx, r.ID)
	if err == nil || !strings.Contains(err.Error(), "stack overflow") {
		t.Error(err)
	}
	stop()
	got, err := host.Verify(ctx, dir, host.Config{}, host.VerifyOptions{Engines: bothEngines})
	do(t, err)
	if !got.Sound() || got.Replayed != 1 || got.Uncompared != 1 {
		t.Errorf("%+v", got)
	}
}

// TestEnginesRefused names engines that are not there.
func TestEnginesRefused(t *testing.T) {
	if got := host.Engines(); !slices.Equal(got[:2], bothEngines) {
		t.Errorf("%q", got)
	}
	for want, names := range map[string][]string{
		`got "v8"`:                  {host.EngineCompiler, "v8"},
		`"compiler" is named twice`: {host.EngineCompiler, host.EngineCompiler},
	} {
		_, err := host.Verify(ctx, t.TempDir(), host.Config{}, host.VerifyOptions{Engines: names})
		if !errors.Is(err, host.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
