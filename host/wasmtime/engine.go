// Package wasmtime links Wasmtime into a program, by github.com/bytecodealliance/wasmtime-go, as a second WebAssembly
// engine with which host.Verify can replay journals. Import it for its side effect, and name it in
// host.VerifyOptions.Engines:
//
//	import _ "github.com/wfhost/wfhost/host/wasmtime"
//
// It needs cgo and a C compiler, and is a separate module, so that programs without it need neither.
//
// The engine only replays: its instances cannot be forked, frozen or reused, and it keeps nothing on disk.
package wasmtime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"syscall"

	wt "github.com/bytecodealliance/wasmtime-go/v39"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/calls"
	"github.com/wfhost/wfhost/host/internal/wasm/instrument"
)

// Name is the name of the engine.
const Name = "wasmtime"

func init() { engine.Register(Name, newEngine) }

// machine is the engine. It is immutable.
type machine struct {
	engine *wt.Engine
	linker *wt.Linker
}

// newEngine returns an engine with the features that the host accepts.
func newEngine(context.Context) (engine.Engine, error) {
	cfg := wt.NewConfig()
	cfg.SetMaxWasmStack(stackBytes())
	cfg.SetWasmThreads(false)
	cfg.SetWasmRelaxedSIMD(false)
	cfg.SetWasmTailCall(false)
	cfg.SetWasmMultiMemory(false)
	cfg.SetWasmMemory64(false)
	cfg.SetWasmFunctionReferences(false)
	cfg.SetWasmGC(false)
	cfg.SetWasmWideArithmetic(false)
	cfg.SetCraneliftOptLevel(wt.OptLevelSpeed)
	m := &machine{engine: wt.NewEngineWithConfig(cfg)}
	m.linker = wt.NewLinker(m.engine)
	return m, m.link()
}

// The calls of a guest use the stack of its thread, whose size is RLIMIT_STACK at the start of the process. An
// overflow kills the process, so a part is left to Go and to the host.
const (
	mostStackBytes  = 64 << 20
	leastStackBytes = 1 << 20 // half the stack of a thread without a limit
)

func stackBytes() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_STACK, &limit); err != nil || limit.Cur > 1<<40 {
		return leastStackBytes
	}
	return int(max(min(limit.Cur/4*3, mostStackBytes), leastStackBytes/2))
}

// link defines the imports of guests.
func (m *machine) link() error {
	impl, err := calls.Functions()
	if err != nil {
		return err
	}
	for module, table := range calls.Signatures() {
		for name, sig := range table {
			ty := wt.NewFuncType(types(sig.Params), types(sig.Results))
			if err := m.linker.FuncNew(module, name, ty, answer(impl[module][name], sig)); err != nil {
				return fmt.Errorf("register %s.%s: %w", module, name, err)
			}
		}
	}
	return m.linker.FuncNew(instrument.ImportModule, instrument.ImportRefuel, wt.NewFuncType(nil, nil), refuel)
}

func types(list []abi.Type) []*wt.ValType {
	var out []*wt.ValType
	for _, t := range list {
		kind := wt.KindI32
		switch t {
		case abi.I64:
			kind = wt.KindI64
		case abi.F64:
			kind = wt.KindF64
		}
		out = append(out, wt.NewValType(kind))
	}
	return out
}

// Compile compiles a module in memory.
func (m *machine) Compile(ctx context.Context, s engine.Source) (engine.Module, error) {
	wasm, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	r, err := instrument.Rewrite(wasm, instrument.Options{Fuel: true, NaN: true, TableElements: abi.MaxTableElements})
	if err != nil {
		return nil, fmt.Errorf("rewrite: %w", err)
	}
	c, err := wt.NewModule(m.engine, r.Wasm)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	mod := &module{machine: m, compiled: c, rewritten: *r, exports: map[string]bool{}, bytes: 5 * int64(len(r.Wasm))}
	mod.rewritten.Wasm = nil
	for _, e := range c.Exports() {
		mod.exports[e.Name()] = e.Type().FuncType() != nil
	}
	return mod, nil
}

// Forget does nothing: there is no cache.
func (m *machine) Forget(context.Context, [32]byte) error { return nil }

// Trim closes nothing: there are no idle instances.
func (m *machine) Trim(context.Context) (closed, left int) { return 0, 0 }

func (m *machine) Close(context.Context) error {
	m.linker.Close()
	m.engine.Close()
	return nil
}

// errHalted is the panic and the trap that end a guest when the host stops it.
var errHalted = errors.New("the host has stopped the guest")

// answer returns the import that calls a function of the host.
func answer(fn calls.Func, sig abi.Signature) func(*wt.Caller, []wt.Val) ([]wt.Val, *wt.Trap) {
	return func(c *wt.Caller, args []wt.Val) (results []wt.Val, trap *wt.Trap) {
		in := c.Data().(*instance)
		defer in.halted(&trap)
		if err := in.host.Enter(); err != nil {
			in.Halt(err)
		}
		stack := make([]uint64, len(args))
		for i, v := range args {
			if v.Kind() == wt.KindI64 {
				stack[i] = uint64(v.I64())
			} else {
				stack[i] = uint64(uint32(v.I32()))
			}
		}
		memory := view(c.GetExport(abi.ExportMemory).Memory().UnsafeData(c))
		v := fn(&calls.Frame{Guest: in, Host: in.host, Memory: memory, Stack: stack})
		switch {
		case len(sig.Results) == 0:
			return nil, nil
		case sig.Results[0] == abi.I64:
			return []wt.Val{wt.ValI64(int64(v))}, nil
		case sig.Results[0] == abi.F64:
			return []wt.Val{wt.ValF64(math.Float64frombits(v))}, nil
		}
		return []wt.Val{wt.ValI32(int32(v))}, nil
	}
}

// view is the memory of the calling guest.
type view []byte

func (v view) Size() uint32 { return uint32(len(v)) }

func (v view) Read(offset, n uint32) ([]byte, bool) {
	end := uint64(offset) + uint64(n)
	if end > uint64(len(v)) {
		return nil, false
	}
	return v[offset:end:end], true
}

// refuel grants the guest more fuel, or stops it. If fuel is left, it is called because the memory or a table could
// not grow.
func refuel(c *wt.Caller, _ []wt.Val) (_ []wt.Val, trap *wt.Trap) {
	in := c.Data().(*instance)
	defer in.halted(&trap)
	fuel := c.GetExport(in.m.rewritten.Fuel).Global()
	left := fuel.Get(c).I64()
	if left >= 0 {
		in.denied = true
		return nil, nil
	}
	for ; left < 0; left += engine.FuelGrant * instrument.Ticks {
		if err := in.host.Refuel(); err != nil {
			in.Halt(err)
		}
	}
	if err := fuel.Set(c, wt.ValI64(left)); err != nil {
		in.Halt(err)
	}
	return nil, nil
}
