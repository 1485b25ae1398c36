package wazero

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/calls"
	"github.com/wfhost/wfhost/host/internal/wasm/instrument"
)

// register instantiates the host modules.
func register(ctx context.Context, rt wazero.Runtime) error {
	impl, err := calls.Functions()
	if err != nil {
		return err
	}
	for module, table := range calls.Signatures() {
		b := rt.NewHostModuleBuilder(module)
		for name, sig := range table {
			b.NewFunctionBuilder().WithGoModuleFunction(wrap(impl[module][name], len(sig.Results) > 0), types(sig.Params),
				types(sig.Results)).Export(name)
		}
		if _, err := b.Instantiate(ctx); err != nil {
			return fmt.Errorf("register %s: %w", module, err)
		}
	}
	_, err = rt.NewHostModuleBuilder(instrument.ImportModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(refuel), nil, nil).Export(instrument.ImportRefuel).Instantiate(ctx)
	return err
}

// refuel grants the guest more fuel, or stops it. Fuel used beyond the previous grant is charged to the new one. The
// guest also calls refuel with fuel left, to report that the memory or a table could not grow.
func refuel(ctx context.Context, mod api.Module, _ []uint64) {
	a := activationOf(ctx)
	if a.in.fuel == nil { // during instantiation
		a.in.fuel, _ = mod.ExportedGlobal(a.in.m.rewritten.Fuel).(api.MutableGlobal)
		a.in.mod = mod
		a.in.findHeap()
	}
	if int64(a.in.fuel.Get()) >= 0 {
		a.denied = true
		return
	}
	fuel := int64(a.in.fuel.Get())
	for ; fuel < 0; fuel += engine.FuelGrant * instrument.Ticks {
		if err := a.host.Refuel(); err != nil {
			a.Halt(err)
		}
	}
	if held := sum(a.in.heap); held > maxHeapBytes {
		a.Halt(&engine.Trap{Kind: engine.TrapMemory, Message: fmt.Sprintf(
			"out of memory: tables and references to functions take %d bytes, the limit is %d", held, maxHeapBytes)})
	}
	if a.frozen && a.late { // it should return, not compute
		a.Halt(errNotFrozen)
	}
	a.late = a.frozen
	a.in.fuel.Set(uint64(fuel))
}

func types(ts []abi.Type) []api.ValueType {
	out := make([]api.ValueType, len(ts))
	for i, t := range ts {
		out[i] = api.ValueType(t)
	}
	return out
}

func wrap(fn calls.Func, result bool) api.GoModuleFunc {
	return func(ctx context.Context, mod api.Module, st []uint64) {
		a := activationOf(ctx)
		if err := a.host.Enter(); err != nil {
			a.Halt(err)
		}
		if a.frozen {
			a.Halt(errNotFrozen)
		}
		f := &a.frame
		*f = calls.Frame{Guest: a, Host: a.host, Memory: mod.Memory(), Stack: st}
		if a.in != nil && a.in.forkable {
			a.ctx, a.call = ctx, call{fn: fn, mod: mod, st: st}
		}
		v := fn(f)
		if result {
			st[0] = v
		}
	}
}
