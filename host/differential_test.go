package host_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/wasm/instrument"
)

var (
	differentialAll     = flag.Bool("differential.all", false, "TestDifferential compares all examples and all modules, in place of some")
	differentialModules = flag.String("differential.modules", "", "a folder with more modules for TestDifferential")
)

// Bounds of TestDifferential.
const (
	differentialCalls = 8                // of each function, with arguments at random
	differentialFuel  = 20_000_000       // per instance; after that, a new one is made
	differentialTime  = 20 * time.Second // per module: calls beyond it are skipped
	differentialBytes = 6 << 20          // of a module
)

var errTank = errors.New("out of fuel")

// side is a module, original or rewritten, in its own engine.
type side struct {
	rt        wazero.Runtime
	compiled  wazero.CompiledModule
	rewritten *instrument.Module // nil: as it is
	mod       api.Module
	given     int64 // fuel
}

// newSide compiles a module. It provides all imports: WASI functions work, other functions return zeros.
func newSide(wasm []byte, rewritten *instrument.Module) (s *side, err error) {
	s = &side{rewritten: rewritten, rt: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithMemoryLimitPages(1024).
		WithCoreFeatures(api.CoreFeaturesV2))}
	if rewritten != nil {
		wasm = rewritten.Wasm
	}
	s.compiled, err = s.rt.CompileModule(ctx, wasm)
	if err != nil {
		return s, err
	}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, s.rt); err != nil {
		return s, err
	}
	stubs := map[string]wazero.HostModuleBuilder{}
	for _, f := range s.compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		if module == wasi_snapshot_preview1.ModuleName {
			continue
		}
		if stubs[module] == nil {
			stubs[module] = s.rt.NewHostModuleBuilder(module)
		}
		call := api.GoModuleFunc(func(_ context.Context, _ api.Module, stack []uint64) { clear(stack) })
		if module == instrument.ImportModule && name == instrument.ImportRefuel {
			call = s.refuel
		}
		stubs[module] = stubs[module].NewFunctionBuilder().WithGoModuleFunction(call, f.ParamTypes(), f.ResultTypes()).Export(name)
	}
	for _, b := range stubs {
		if _, err := b.Instantiate(ctx); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *side) refuel(_ context.Context, m api.Module, _ []uint64) {
	counter, ok := m.ExportedGlobal(s.rewritten.Fuel).(api.MutableGlobal)
	if !ok || s.given > differentialFuel {
		panic(errTank)
	}
	if left := int64(counter.Get()); left < 0 { // otherwise the call reports that memory could not grow
		s.given += 1_000_000
		counter.Set(uint64(left + 1_000_000))
	}
}

// begin makes a new instance, as a host does.
func (s *side) begin() (err error) {
	if s.mod != nil {
		_ = s.mod.Close(ctx)
	}
	s.given = 0
	s.mod, err = s.rt.InstantiateModule(ctx, s.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil || s.rewritten == nil {
		return err
	}
	for _, d := range s.rewritten.Data {
		if !s.mod.Memory().Write(d.Offset, d.Bytes) {
			return errors.New("out of bounds memory access")
		}
	}
	if s.rewritten.Start != "" {
		_, err = s.mod.ExportedFunction(s.rewritten.Start).Call(ctx)
	}
	return err
}

// memory returns the size and a hash of the memory.
func (s *side) memory() string {
	m := s.mod.Memory()
	if m == nil || reflect.ValueOf(m).IsNil() { // a typed nil: the module has no memory
		return "none"
	}
	all, _ := m.Read(0, m.Size())
	return fmt.Sprintf("%d bytes %x", len(all), sha256.Sum256(all))
}

// firstLine is the text of an error without the stack, whose function numbers differ in a rewritten module.
func firstLine(err error) string {
	if err == nil {
		return ""
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// compared counts what TestDifferential has compared.
type compared struct{ modules, functions, calls, traps, fuel, left int }

// differ compares a module with its rewritten form: instantiation, and calls of each exported function on numbers,
// with random arguments. Results, traps and memory must be equal.
func (n *compared) differ(t *testing.T, name string, wasm []byte) {
	began := time.Now()
	canonical := !strings.Contains(name, "float_exprs") // it reads bits of NaNs, which the engine chooses in the original
	rewritten, err := instrument.Rewrite(wasm, instrument.Options{Fuel: true, NaN: canonical, TableElements: 1 << 20})
	if err != nil {
		n.left++
		return
	}
	unbounded, err := instrument.Rewrite(wasm, instrument.Options{Fuel: true, NaN: canonical})
	bounded := err != nil || !bytes.Equal(unbounded.Wasm, rewritten.Wasm)
	plain, err := newSide(wasm, nil)
	defer func() { _ = plain.rt.Close(ctx) }()
	other, err2 := newSide(wasm, rewritten)
	defer func() { _ = other.rt.Close(ctx) }()
	if (err == nil) != (err2 == nil) && !strings.Contains(firstLine(err), "custom") { // names are dropped; inspection looks at them
		t.Errorf("%s: compiled as it is: %v, rewritten: %v", name, err, err2)
	}
	if err != nil || err2 != nil {
		n.left++
		return
	}
	again := func() bool {
		err2 = other.begin()
		if errors.Is(err2, errTank) {
			return false
		}
		err = plain.begin()
		if (err == nil) != (err2 == nil) {
			t.Errorf("%s: instantiated as it is: %v, rewritten: %v", name, err, err2)
		}
		return err == nil && err2 == nil
	}
	if !again() {
		n.left++
		return
	}
	n.modules++
	if a, b := plain.memory(), other.memory(); a != b {
		t.Errorf("%s: it begins with %s, rewritten with %s", name, a, b)
	}
	r := rand.New(rand.NewPCG(1, 2))
	exports := plain.compiled.ExportedFunctions()
	for _, export := range slices.Sorted(maps.Keys(exports)) {
		if !numbers(exports[export].ParamTypes()) || !numbers(exports[export].ResultTypes()) {
			continue
		}
		n.functions++
		for range differentialCalls {
			if time.Since(began) > differentialTime {
				return
			}
			args := arguments(r, exports[export].ParamTypes())
			for i := range args {
				if bounded { // the original's tables are unbounded and would take all memory
					args[i] &= 0xfff
				}
			}
			if !n.call(t, name, export, plain, other, args) && !again() {
				return
			}
		}
	}
}

// call compares one call. It returns false if the instances must not be used again.
func (n *compared) call(t *testing.T, name, export string, plain, other *side, args []uint64) bool {
	n.calls++
	got, err2 := other.mod.ExportedFunction(export).Call(ctx, args...)
	if errors.Is(err2, errTank) {
		n.fuel++
		return false // as it is, it might never end
	}
	want, err := plain.mod.ExportedFunction(export).Call(ctx, args...)
	overflow := strings.Contains(firstLine(err), "stack overflow") || strings.Contains(firstLine(err2), "stack overflow")
	if overflow { // frames of a rewritten function may be larger
		n.traps++
		return false
	}
	for i, of := range plain.mod.ExportedFunction(export).Definition().ResultTypes() {
		if err == nil && isNaN(of, want[i]) && isNaN(of, got[i]) {
			want[i] = got[i] // the engine chooses the bits of a NaN in the original
		}
	}
	if firstLine(err) != firstLine(err2) || err == nil && !slices.Equal(want, got) {
		t.Errorf("%s: %s%v returns %v, %s; rewritten %v, %s", name, export, args, want, firstLine(err), got, firstLine(err2))
	}
	if a, b := plain.memory(), other.memory(); a != b {
		t.Errorf("%s: after %s%v it has %s, rewritten %s", name, export, args, a, b)
	}
	if err != nil {
		n.traps++
	}
	return err == nil
}

func numbers(types []api.ValueType) bool {
	return !slices.ContainsFunc(types, func(t api.ValueType) bool {
		return t != api.ValueTypeI32 && t != api.ValueTypeI64 && t != api.ValueTypeF32 && t != api.ValueTypeF64
	})
}

// arguments returns random numbers: small ones, likely addresses, and the limits of their types.
func arguments(r *rand.Rand, types []api.ValueType) []uint64 {
	args := make([]uint64, len(types))
	for i, t := range types {
		ends := []uint64{0, 1, 1 << 31, 1<<32 - 1, 1<<63 - 1, 1 << 63, 1<<64 - 1}
		args[i] = []uint64{r.Uint64N(16), r.Uint64N(70_000), r.Uint64(), 1024 * r.Uint64N(64), ends[r.IntN(len(ends))]}[r.IntN(5)]
		if t == api.ValueTypeI32 || t == api.ValueTypeF32 {
			args[i] &= 1<<32 - 1
		}
	}
	return args
}

// TestDifferential compares the behavior of modules before and after the rewrite: the examples, and the modules in
// wazero's source, which were made by Rust, Zig, TinyGo, Emscripten and others, and for the specification's tests.
func TestDifferential(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	modules := foreignModules(t, 8)
	maps.Copy(modules, handmadeModules())
	if wasm := cGuest(t); wasm != nil {
		modules["c"] = wasm
	}
	examples := []string{"drip"}
	if *differentialAll {
		examples = goExamples(t)
	}
	for _, name := range examples {
		modules["example "+name] = hosttest.Build(t, filepath.Join("../examples", name))
	}
	if dir := *differentialModules; dir != "" {
		files, err := filepath.Glob(filepath.Join(dir, "*.wasm"))
		do(t, err)
		for _, f := range files {
			wasm, err := os.ReadFile(f)
			do(t, err)
			modules[filepath.Base(f)] = wasm
		}
	}
	var n compared
	real := 0
	for i, name := range slices.Sorted(maps.Keys(modules)) {
		wasm, specification := modules[name], strings.Contains(name, "spectest")
		if len(wasm) > differentialBytes || specification && !*differentialAll && i%25 > 0 {
			n.left++
			continue
		}
		before := n.modules
		n.differ(t, name, wasm)
		if n.modules > before && !specification {
			real++
			t.Logf("%s: %d bytes", name, len(wasm))
		}
	}
	t.Logf("%d modules compared, %d of them not made for tests of the specification; %d functions, %d calls, of which %d trapped and %d ran "+
		"out of fuel; %d modules cannot be compared", n.modules, real, n.functions, n.calls, n.traps, n.fuel, n.left)
	if n.modules < 20 || *differentialAll && real < 20 {
		t.Errorf("only %d modules were compared, %d of them not made for tests of the specification", n.modules, real)
	}
}

// isNaN reports whether a number of a type is NaN.
func isNaN(of api.ValueType, bits uint64) bool {
	return of == api.ValueTypeF32 && math.IsNaN(float64(math.Float32frombits(uint32(bits)))) ||
		of == api.ValueTypeF64 && math.IsNaN(math.Float64frombits(bits))
}

// goExamples returns the folders of the examples that are Go workflows.
func goExamples(t *testing.T) (names []string) {
	files, err := filepath.Glob("../examples/*/main.go")
	do(t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		do(t, err)
		if strings.Contains(string(b), "workflow.Register(") {
			names = append(names, filepath.Base(filepath.Dir(f)))
		}
	}
	return names
}
