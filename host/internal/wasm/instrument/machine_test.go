package instrument

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

var ctx = context.Background()

// engines are wazero's two engines, which must agree.
var engines = map[string]func() wazero.RuntimeConfig{
	"compiler": wazero.NewRuntimeConfigCompiler, "interpreter": wazero.NewRuntimeConfigInterpreter,
}

// errFuel stops a guest that has used up its fuel.
var errFuel = errors.New("out of fuel")

// tank grants fuel in portions until the limit is reached.
type tank struct {
	export  string
	counter api.MutableGlobal
	portion int64
	limit   int64 // of given
	given   int64
	calls   int  // of refuel
	idle    bool // it gives nothing
	lowest  int64
}

func (k *tank) refuel(_ context.Context, m api.Module, _ []uint64) {
	k.calls++
	if k.counter == nil { // a start function
		k.counter = m.ExportedGlobal(k.export).(api.MutableGlobal)
	}
	k.lowest = min(k.lowest, int64(k.counter.Get()))
	for v := int64(k.counter.Get()); v < 0 && !k.idle; v += k.portion {
		if k.given >= k.limit {
			panic(errFuel)
		}
		k.given += k.portion
		k.counter.Set(uint64(v + k.portion))
	}
}

// used is what has been burnt.
func (k *tank) used() int64 {
	if k.counter == nil {
		return 0
	}
	return k.given - int64(k.counter.Get())
}

func unlimited() *tank { return &tank{portion: 1 << 30, limit: math.MaxInt64 / 2} }

// loaded is an instance of a module, original or rewritten, prepared as a host would.
type loaded struct {
	api.Module
	m    *Module // nil: as it was
	tank *tank
	rt   wazero.Runtime
}

func (l *loaded) close() { _ = l.rt.Close(ctx) }

// load makes an instance as a host would. Without m, it is an instance of the original module.
func load(config wazero.RuntimeConfig, wasm []byte, m *Module, k *tank) (*loaded, error) {
	l := &loaded{m: m, tank: k, rt: wazero.NewRuntimeWithConfig(ctx, config.WithCoreFeatures(api.CoreFeaturesV2))}
	if err := l.instantiate(wasm); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *loaded) instantiate(wasm []byte) error {
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, l.rt); err != nil {
		return err
	}
	host := l.rt.NewHostModuleBuilder(ImportModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(l.tank.refuel), nil, nil).Export(ImportRefuel).
		NewFunctionBuilder().WithFunc(func() {}).Export("nothing")
	if _, err := host.Instantiate(ctx); err != nil {
		return err
	}
	env := l.rt.NewHostModuleBuilder("env")
	for i := range 3 {
		env = env.NewFunctionBuilder().WithFunc(func(v int32) int32 { return v*3 + int32(i) }).Export(fmt.Sprint("f", i))
	}
	if _, err := env.Instantiate(ctx); err != nil {
		return err
	}
	if l.m != nil {
		wasm, l.tank.export = l.m.Wasm, l.m.Fuel
	}
	var err error
	l.Module, err = l.rt.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStartFunctions())
	if err != nil {
		return err
	}
	if l.m == nil {
		return nil
	}
	if l.m.Fuel != "" {
		l.tank.counter = l.ExportedGlobal(l.m.Fuel).(api.MutableGlobal)
	}
	for _, d := range l.m.Data {
		if !l.Memory().Write(d.Offset, d.Bytes) {
			return fmt.Errorf("%d bytes of data at %d are outside", len(d.Bytes), d.Offset)
		}
	}
	if l.m.Start != "" {
		_, err = l.ExportedFunction(l.m.Start).Call(ctx)
	}
	return err
}

// outcome is everything observable about a call.
func (l *loaded) outcome(export string, args ...uint64) string {
	results, err := l.ExportedFunction(export).Call(ctx, args...)
	if err != nil {
		if errors.Is(err, errFuel) {
			return errFuel.Error()
		}
		text, _, _ := strings.Cut(err.Error(), "\n")
		return text
	}
	return fmt.Sprint(results)
}

func (l *loaded) memory() []byte {
	if reflect.ValueOf(l.Memory()).IsNil() { // a typed nil: the module has no memory
		return nil
	}
	b, _ := l.Memory().Read(0, l.Memory().Size())
	return bytes.Clone(b)
}

var options = map[string]Options{"exports": {}, "fuel": {Fuel: true}, "numbers": {Fuel: true, NaN: true},
	"looking": {Fuel: true, large: 1}}

// variants rewrites a module in both ways.
func variants(t testing.TB, wasm []byte) map[string]*Module {
	t.Helper()
	out := map[string]*Module{"original": nil}
	for name, o := range options {
		m, err := Rewrite(wasm, o)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = m
	}
	return out
}
