package wasmtime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	wt "github.com/bytecodealliance/wasmtime-go/v39"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/calls"
	"github.com/wfhost/wfhost/host/internal/wasm/instrument"
)

// module is a compiled module. It is immutable.
type module struct {
	machine   *machine
	compiled  *wt.Module
	rewritten instrument.Module // Wasm is nil
	exports   map[string]bool
	bytes     int64
}

func (m *module) HasExport(name string) bool { return m.exports[name] }
func (m *module) Bytes() int64               { return m.bytes }

// instanceBytes is about what an instance takes beside its memory: pages of Wasmtime's store.
const instanceBytes = 64 << 10

func (m *module) Overhead() int64 { return instanceBytes + 8*int64(m.rewritten.Elements) }

func (m *module) Close(context.Context) error {
	m.compiled.Close()
	return nil
}

// Instantiate creates an instance and runs its start-up: data segments, the start function, and _initialize, as with
// wazero.
func (m *module) Instantiate(ctx context.Context) (engine.Instance, error) {
	in := &instance{m: m, host: calls.NewStartHost(ctx)}
	in.store = wt.NewStoreWithData(m.machine.engine, in)
	in.store.Limiter(abi.MaxMemoryBytes, -1, -1, -1, -1)
	if err := in.start(); err != nil {
		err = in.explain(ctx, err, engine.TrapInit)
		in.store.Close()
		return nil, err
	}
	return in, nil
}

// instance is an instance in its own store. It is for one goroutine.
type instance struct {
	m     *module
	store *wt.Store
	wasm  *wt.Instance

	// The state of the current call.
	host   engine.Host
	stop   error // why the host stopped the guest
	denied bool  // memory or a table could not grow
}

func (in *instance) start() (err error) {
	in.wasm, err = in.m.machine.linker.Instantiate(in.store, in.m.compiled)
	if err != nil {
		return err
	}
	memory := in.memory()
	for _, s := range in.m.rewritten.Data {
		if int64(s.Offset)+int64(len(s.Bytes)) > int64(len(memory)) {
			return fmt.Errorf("a data segment of %d bytes at address %d lies outside of the memory of %d bytes", len(s.Bytes),
				s.Offset, len(memory))
		}
		copy(memory[s.Offset:], s.Bytes)
	}
	for _, name := range []string{in.m.rewritten.Start, abi.ExportInitialize} {
		if name == "" {
			continue
		}
		if fn := in.wasm.GetFunc(in.store, name); fn != nil {
			if _, err := fn.Call(in.store); err != nil {
				return err
			}
		}
	}
	return nil
}

// memory returns the linear memory itself, valid until the guest runs again.
func (in *instance) memory() []byte {
	return in.wasm.GetExport(in.store, abi.ExportMemory).Memory().UnsafeData(in.store)
}

// Halt stops the guest.
func (in *instance) Halt(reason error) {
	in.stop = reason
	panic(errHalted)
}

// Freezes reports that guests cannot be frozen.
func (in *instance) Freezes() bool { return false }

// Freeze returns nothing.
func (in *instance) Freeze() (engine.Frozen, bool) { return nil, false }

// halted converts the panic of Halt to a trap.
func (in *instance) halted(trap **wt.Trap) {
	switch r := recover(); r {
	case nil:
	case errHalted:
		*trap = wt.NewTrap(errHalted.Error())
	default:
		panic(r)
	}
}

// Call calls an export.
func (in *instance) Call(ctx context.Context, export string, h engine.Host) (int32, error) {
	if !in.m.exports[export] {
		return 0, fmt.Errorf("the module does not export %s", export)
	}
	in.host, in.stop, in.denied = h, nil, false
	result, err := in.wasm.GetFunc(in.store, export).Call(in.store)
	exit := &engine.Exit{}
	switch {
	case err == nil:
		code, _ := result.(int32) // 0 without a result
		return code, nil
	case in.stop == nil || !errors.As(in.stop, &exit):
		return 0, in.explain(ctx, err, engine.TrapGuest)
	case exit.Code != 0 && in.denied:
		return int32(exit.Code), &engine.Trap{Kind: engine.TrapMemory, Message: in.outOfMemory(exit.Error())}
	}
	return int32(exit.Code), nil
}

// messages has wazero's names of the traps, so that journals are the same with every engine.
var messages = map[wt.TrapCode]string{
	wt.StackOverflow: "stack overflow", wt.MemoryOutOfBounds: "out of bounds memory access",
	wt.TableOutOfBounds: "invalid table access", wt.IndirectCallToNull: "invalid table access",
	wt.BadSignature: "indirect call type mismatch", wt.IntegerOverflow: "integer overflow",
	wt.IntegerDivisionByZero: "integer divide by zero", wt.BadConversionToInteger: "invalid conversion to integer",
	wt.UnreachableCodeReached: "unreachable",
}

// explain converts Wasmtime's error to the reason, as package engine/wazero does.
func (in *instance) explain(ctx context.Context, err error, kind string) error {
	exit := &engine.Exit{}
	if errors.As(in.stop, &exit) { // during start-up
		return &engine.Trap{Message: in.say(exit.Error()), Kind: engine.TrapExit}
	}
	if in.stop != nil {
		return in.stop
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var trap *wt.Trap
	if !errors.As(err, &trap) {
		return &engine.Trap{Message: err.Error(), Kind: kind}
	}
	t := &engine.Trap{Message: trap.Message(), Stack: stack(trap), Kind: kind}
	code := trap.Code()
	if code == nil {
		return t
	}
	if m := messages[*code]; m != "" {
		t.Message = m
	}
	switch {
	case *code == wt.StackOverflow && kind == engine.TrapGuest:
		t.Kind = engine.TrapStack
	case *code == wt.UnreachableCodeReached && in.denied && kind == engine.TrapGuest:
		t.Kind, t.Message = engine.TrapMemory, in.outOfMemory(t.Message)
	case *code == wt.UnreachableCodeReached || kind == engine.TrapInit:
		t.Message = in.say(t.Message)
	}
	return t
}

// stack formats the functions of a trap, innermost first.
func stack(t *wt.Trap) string {
	var b strings.Builder
	for _, f := range t.Frames() {
		if name := f.FuncName(); name != nil {
			fmt.Fprintln(&b, *name)
		} else {
			fmt.Fprintf(&b, "$%d\n", f.FuncIndex())
		}
	}
	return b.String()
}

func (in *instance) say(message string) string {
	if h, ok := in.host.(interface{ Explain(message string) string }); ok {
		return h.Explain(message)
	}
	return message
}

func (in *instance) outOfMemory(how string) string {
	return in.say(fmt.Sprintf("out of memory: it has %d bytes, the limit is %d; %s", in.Size(), abi.MaxMemoryBytes, how))
}

func (in *instance) AllowFork()              {}
func (in *instance) Fork(engine.Host) bool   { return false }
func (in *instance) Thaw(engine.Frozen) bool { return false }
func (in *instance) Resident() int64         { return instanceBytes + in.Size() }
func (in *instance) Size() int64             { return int64(len(in.memory())) }
func (in *instance) Fuel() int64 {
	return in.wasm.GetExport(in.store, in.m.rewritten.Fuel).Global().Get(in.store).I64() / instrument.Ticks
}
func (in *instance) Hash() [32]byte {
	var globals []uint64
	for _, g := range in.m.rewritten.Globals {
		switch v := in.wasm.GetExport(in.store, g.Export).Global().Get(in.store); v.Kind() {
		case wt.KindI32:
			globals = append(globals, uint64(uint32(v.I32())))
		case wt.KindI64:
			globals = append(globals, uint64(v.I64()))
		case wt.KindF32:
			globals = append(globals, uint64(math.Float32bits(v.F32())))
		default:
			globals = append(globals, math.Float64bits(v.F64()))
		}
	}
	return engine.Hash(in.memory(), globals)
}

// Release closes the store with the instance.
func (in *instance) Release(context.Context) (held int64) {
	held = in.Resident()
	in.store.Close()
	return held
}
