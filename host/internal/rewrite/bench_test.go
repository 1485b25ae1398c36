package rewrite

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// tightest gives a module whose function "f" of type (i32) -> () counts down to zero: five instructions of an iteration.
func tightest() []byte {
	return cat([]byte(header),
		sec(secType, vec([]byte{formFunction, 1, typeI32, 0})), sec(secFunction, vec(leb(0))), sec(secMemory, vec([]byte{0, 1})),
		sec(secExport, vec(cat(str("f"), []byte{kindFunction, 0}))),
		sec(secCode, vec(sized([]byte{0, opLoop, blockEmpty, opLocalGet, 0, opI32Const, 1, 0x6b, opLocalTee, 0, opBrIf, 0, opEnd, opEnd}))))
}

func BenchmarkTightest(b *testing.B) {
	ctx := context.Background()
	for _, fuel := range []bool{false, true} {
		name := map[bool]string{false: "plain", true: "fuel"}[fuel]
		b.Run(name, func(b *testing.B) {
			m, err := Rewrite(tightest(), Options{Fuel: fuel})
			if err != nil {
				b.Fatal(err)
			}
			rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler())
			defer rt.Close(ctx)
			var counter api.MutableGlobal
			refuel := func(context.Context, api.Module, []uint64) { counter.Set(1 << 62) }
			if _, err := rt.NewHostModuleBuilder(ImportModule).NewFunctionBuilder().
				WithGoModuleFunction(api.GoModuleFunc(refuel), nil, nil).Export(ImportRefuel).Instantiate(ctx); err != nil {
				b.Fatal(err)
			}
			in, err := rt.Instantiate(ctx, m.Wasm)
			if err != nil {
				b.Fatal(err)
			}
			if fuel {
				counter = in.ExportedGlobal(m.Fuel).(api.MutableGlobal)
			}
			f := in.ExportedFunction("f")
			const n = 1_000_000
			for b.Loop() {
				if _, err := f.Call(ctx, n); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/iteration")
		})
	}
}

// BenchmarkRewrite rewrites a Go program.
func BenchmarkRewrite(b *testing.B) {
	wasm := goGuest(b)
	for name, o := range options {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(wasm)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Rewrite(wasm, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkGo compiles and runs a Go program, as it is and rewritten.
func BenchmarkGo(b *testing.B) {
	wasm := goGuest(b)
	for name, m := range variants(b, wasm) {
		b.Run("compile/"+name, func(b *testing.B) {
			for b.Loop() {
				rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler())
				code := wasm
				if m != nil {
					code = m.Wasm
				}
				if _, err := rt.CompileModule(ctx, code); err != nil {
					b.Fatal(err)
				}
				_ = rt.Close(ctx)
			}
		})
		l, err := load(wazero.NewRuntimeConfigCompiler(), wasm, m, unlimited())
		if err != nil {
			b.Fatal(err)
		}
		l.outcome("_initialize")
		for _, f := range []string{"run", "spin"} {
			b.Run(f+"/"+name, func(b *testing.B) {
				n := map[string]uint64{"run": 100, "spin": 1_000_000}[f]
				before := l.tank.used()
				for b.Loop() {
					l.outcome(f, n)
				}
				b.ReportMetric(float64(l.tank.used()-before)/float64(b.Elapsed().Nanoseconds()), "fuel/ns")
			})
		}
		l.close()
	}
}
