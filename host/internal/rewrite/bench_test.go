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
