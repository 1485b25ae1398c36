package wazero

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/rewrite"
)

// frame is one call of a host function: its arguments, which its result replaces.
type frame struct {
	a   *activation
	h   engine.Host
	mem api.Memory
	st  []uint64
}

// hostFunc answers a call. Its answer replaces the first argument, if the function has a result.
type hostFunc func(f *frame) uint64

// register instantiates the host modules.
func register(ctx context.Context, rt wazero.Runtime) error {
	for module, table := range map[string]map[string]abi.Signature{
		abi.ImportModule: abi.Functions, abi.WASIModule: abi.WASIFunctions, abi.EnvModule: abi.EnvFunctions,
	} {
		impl := map[string]map[string]hostFunc{
			abi.ImportModule: workflowFuncs(), abi.WASIModule: wasiFuncs(), abi.EnvModule: envFuncs(),
		}[module]
		b := rt.NewHostModuleBuilder(module)
		for name, sig := range table {
			fn := impl[name]
			if fn == nil {
				return fmt.Errorf("%s.%s has no implementation", module, name)
			}
			b.NewFunctionBuilder().WithGoModuleFunction(wrap(fn, len(sig.Results) > 0), types(sig.Params),
				types(sig.Results)).Export(name)
		}
		if _, err := b.Instantiate(ctx); err != nil {
			return fmt.Errorf("register %s: %w", module, err)
		}
	}
	_, err := rt.NewHostModuleBuilder(rewrite.ImportModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(refuel), nil, nil).Export(rewrite.ImportRefuel).Instantiate(ctx)
	return err
}

// refuel grants the guest another slice of fuel, or stops it. What it has used beyond the slice before counts. It is called
// with fuel left when the memory or a table could not grow.
func refuel(ctx context.Context, mod api.Module, _ []uint64) {
	a := activationOf(ctx)
	if a.in.fuel == nil { // within the instantiation
		a.in.fuel, _ = mod.ExportedGlobal(a.in.m.rewritten.Fuel).(api.MutableGlobal)
		a.in.mod = mod
		a.in.findHeap()
	}
	if int64(a.in.fuel.Get()) >= 0 {
		a.denied = true
		return
	}
	if err := a.host.Refuel(); err != nil {
		a.halt(err)
	}
	if held := sum(a.in.heap); held > maxHeapBytes {
		a.halt(&engine.Trap{Kind: engine.TrapMemory, Message: fmt.Sprintf(
			"out of memory: tables and references to functions take %d bytes, the limit is %d", held, maxHeapBytes)})
	}
	if a.frozen && a.late { // it has no place to compute
		a.halt(errNotFrozen)
	}
	a.late = a.frozen
	a.in.fuel.Set(uint64(int64(a.in.fuel.Get()) + engine.FuelSlice))
}

func types(ts []abi.Type) []api.ValueType {
	out := make([]api.ValueType, len(ts))
	for i, t := range ts {
		out[i] = api.ValueType(t)
	}
	return out
}

func wrap(fn hostFunc, result bool) api.GoModuleFunc {
	return func(ctx context.Context, mod api.Module, st []uint64) {
		a := activationOf(ctx)
		if err := a.host.Enter(); err != nil {
			a.halt(err)
		}
		if a.frozen {
			a.halt(errNotFrozen)
		}
		f := &a.frame
		*f = frame{a: a, h: a.host, mem: mod.Memory(), st: st}
		if a.in != nil && a.in.forkable {
			a.ctx, a.call = ctx, call{fn: fn, mod: mod, st: st}
		}
		v := fn(f)
		if result {
			st[0] = v
		}
	}
}

// u32 gives an i32 argument; the upper half of its slot is not defined.
func (f *frame) u32(i int) uint32 { return uint32(f.st[i]) }

func (f *frame) i64(i int) int64 { return int64(f.st[i]) }

// outOfBounds stops the guest as a trap: it handed over an address outside of its memory.
func (f *frame) outOfBounds(ptr, n uint32) {
	f.a.halt(&engine.Trap{Kind: engine.TrapGuest, Message: fmt.Sprintf(
		"a call was given %d bytes at address %d, outside of the memory of %d bytes", n, ptr, f.mem.Size())})
}

// view gives the guest's memory itself; it is not kept beyond the call.
func (f *frame) view(ptr, n uint32) []byte {
	b, ok := f.mem.Read(ptr, n)
	if !ok {
		f.outOfBounds(ptr, n)
	}
	return b
}

// portion is how many bytes a call works on at a time: some microseconds, after which it looks whether the guest is to
// go on.
const portion = 64 << 10

// work charges the guest for bytes that the call is about to work on, or stops it.
func (f *frame) work(n int) {
	if err := f.h.Work(int64(n)); err != nil {
		f.a.halt(err)
	}
}

// portions visits b in portions, for which it charges the guest, until visit returns false. It reports whether all of b
// was visited.
func (f *frame) portions(b []byte, visit func(b []byte) bool) bool {
	for p := range slices.Chunk(b, portion) {
		f.work(len(p))
		if !visit(p) {
			return false
		}
	}
	return true
}

// random fills the buffer that is named by the first two arguments.
func (f *frame) random() {
	f.portions(f.view(f.u32(0), f.u32(1)), func(b []byte) bool {
		f.h.Random(b)
		return true
	})
}

// maxCopyBytes bounds what is copied out of a guest for one argument: a little over every limit, so that the
// check behind it still sees that the limit is passed.
const maxCopyBytes = abi.MaxPayloadBytes + 1

// bytes copies an argument out of the guest's memory.
func (f *frame) bytes(i int) []byte {
	ptr, n := f.u32(i), f.u32(i+1)
	b := f.view(ptr, n)
	if len(b) > maxCopyBytes {
		b = b[:maxCopyBytes]
	}
	f.work(len(b))
	return append([]byte(nil), b...)
}

// maxTextBytes bounds names and other short text in the same way.
const maxTextBytes = abi.MaxNameBytes + 1

func (f *frame) text(i int) string {
	b := f.view(f.u32(i), f.u32(i+1))
	return string(b[:min(len(b), maxTextBytes)])
}

// out writes an answer into the guest's buffer and gives its whole length.
func (f *frame) out(i int, b []byte) uint64 {
	ptr, n := f.u32(i), f.u32(i+1)
	f.work(min(int(n), len(b)))
	copy(f.view(ptr, n), b)
	return uint64(len(b))
}

// done gives the answer of a call, or stops the guest.
func (f *frame) done(v int64, err error) uint64 {
	if err != nil {
		f.a.halt(err)
	}
	return uint64(v)
}

// block makes the blocking form of a call: wait for the handle, then give its result.
func (f *frame) block(handle int64, err error, out int) uint64 {
	if err != nil || handle < 0 {
		return f.done(handle, err)
	}
	got, err := f.h.Await([]int64{handle})
	if err != nil || got < 0 {
		return f.done(got, err)
	}
	b, n := f.h.Result(handle)
	switch {
	case n < 0:
		return uint64(n)
	case out < 0:
		return 0
	}
	return f.out(out, b)
}

func (f *frame) await() uint64 {
	ptr, n := f.u32(0), f.u32(1)
	if n > abi.MaxAwaitHandles+1 {
		n = abi.MaxAwaitHandles + 1 // refused all the same
	}
	b := f.view(ptr, n*8)
	f.work(len(b))
	var handles []int64
	for ; len(b) > 0; b = b[8:] {
		handles = append(handles, int64(binary.LittleEndian.Uint64(b)))
	}
	return f.done(f.h.Await(handles))
}

func workflowFuncs() map[string]hostFunc {
	m := map[string]hostFunc{
		abi.FnInput: func(f *frame) uint64 { return f.out(0, f.h.Input()) },
		abi.FnInfo: func(f *frame) uint64 {
			b := f.h.Info()
			f.work(len(b)) // it is made for each call
			return f.out(0, b)
		},
		abi.FnLast:            func(f *frame) uint64 { return f.out(0, f.h.Last()) },
		abi.FnNow:             func(f *frame) uint64 { return uint64(f.h.Now()) },
		abi.FnRandom:          func(f *frame) uint64 { f.random(); return 0 },
		abi.FnSleepStart:      func(f *frame) uint64 { return f.done(f.h.Sleep(f.text(0), f.i64(2))) },
		abi.FnSleepUntilStart: func(f *frame) uint64 { return f.done(f.h.SleepUntil(f.text(0), f.i64(2))) },
		abi.FnSleepTextStart:  func(f *frame) uint64 { return f.done(f.h.SleepText(f.text(0), f.text(2))) },
		abi.FnSleep: func(f *frame) uint64 {
			h, err := f.h.Sleep(f.text(0), f.i64(2))
			return f.block(h, err, -1)
		},
		abi.FnSleepUntil: func(f *frame) uint64 {
			h, err := f.h.SleepUntil(f.text(0), f.i64(2))
			return f.block(h, err, -1)
		},
		abi.FnSleepText: func(f *frame) uint64 {
			h, err := f.h.SleepText(f.text(0), f.text(2))
			return f.block(h, err, -1)
		},
		abi.FnStepStart: func(f *frame) uint64 {
			return f.done(f.h.Step(f.text(0), f.text(2), f.bytes(4), f.bytes(6)))
		},
		abi.FnStepDo: func(f *frame) uint64 {
			h, err := f.h.Step(f.text(0), f.text(2), f.bytes(4), f.bytes(6))
			return f.block(h, err, 8)
		},
		abi.FnStepBegin: func(f *frame) uint64 { return f.done(f.h.StepBegin(f.text(0), f.bytes(2))) },
		abi.FnStepEnd: func(f *frame) uint64 {
			err := f.h.StepEnd(int32(f.u32(0)), f.bytes(1))
			if err == nil {
				err = errors.New("step_end came back")
			}
			return f.done(0, err)
		},
		abi.FnAwait:     (*frame).await,
		abi.FnResult:    func(f *frame) uint64 { return f.answer(f.h.Result(f.i64(0))) },
		abi.FnCancel:    func(f *frame) uint64 { return f.done(f.h.Cancel(f.i64(0))) },
		abi.FnComplete:  func(f *frame) uint64 { return uint64(f.h.Complete(f.bytes(0))) },
		abi.FnFail:      func(f *frame) uint64 { return uint64(f.h.Fail(f.bytes(0))) },
		abi.FnLog:       func(f *frame) uint64 { return uint64(f.h.Log(int32(f.u32(0)), f.bytes(1))) },
		abi.FnNextEvent: func(f *frame) uint64 { return uint64(f.h.NextEvent()) },
		abi.FnWaitEvent: (*frame).waitEvent,
	}
	maps.Copy(m, primitiveFuncs())
	return m
}

// primitiveFuncs are the functions beyond time and steps.
func primitiveFuncs() map[string]hostFunc {
	return map[string]hostFunc{
		abi.FnSignalStart: func(f *frame) uint64 { return f.done(f.h.Signal(f.text(0), f.i64(2))) },
		abi.FnSignalWait: func(f *frame) uint64 {
			h, err := f.h.Signal(f.text(0), f.i64(2))
			return f.block(h, err, 3)
		},
		abi.FnSignalSend: func(f *frame) uint64 {
			return f.done(f.h.SignalSend(f.text(0), f.text(2), f.text(4), f.bytes(6)))
		},
		abi.FnChildStart: func(f *frame) uint64 {
			return f.done(f.h.Child(f.text(0), f.text(2), f.bytes(4), f.bytes(6)))
		},
		abi.FnChildRun: func(f *frame) uint64 {
			h, err := f.h.Child(f.text(0), f.text(2), f.bytes(4), f.bytes(6))
			return f.block(h, err, 8)
		},
		abi.FnChildID:       func(f *frame) uint64 { return f.answer(f.h.ChildID(f.i64(0))) },
		abi.FnHookStart:     func(f *frame) uint64 { return f.done(f.h.Hook(f.text(0), f.text(2), f.bytes(4))) },
		abi.FnEmit:          func(f *frame) uint64 { return f.done(f.h.Emit(f.text(0), f.bytes(2))) },
		abi.FnSetAttribute:  func(f *frame) uint64 { return f.done(f.h.SetAttribute(f.text(0), f.bytes(2))) },
		abi.FnCancelPolicy:  func(f *frame) uint64 { return f.done(f.h.CancelPolicy(int32(f.u32(0)))) },
		abi.FnVersion:       func(f *frame) uint64 { return f.done(f.h.Version(f.text(0), f.i64(2))) },
		abi.FnContinueAsNew: func(f *frame) uint64 { return f.done(0, f.h.ContinueAsNew(f.bytes(0), f.bytes(2))) },
		abi.FnQueryReply:    func(f *frame) uint64 { return f.done(0, f.h.QueryReply(int32(f.u32(0)), f.bytes(1))) },
		abi.FnFetch: func(f *frame) uint64 {
			b, n := f.h.Fetch(f.bytes(0))
			if n < 0 {
				return uint64(n)
			}
			return f.out(2, b)
		},
	}
}

// answer writes an answer into the buffer that follows the first argument, or gives the code.
func (f *frame) answer(b []byte, n int64) uint64 {
	if n < 0 {
		return uint64(n)
	}
	return f.out(1, b)
}
