package rewrite

import (
	"fmt"
	"testing"

	"github.com/tetratelabs/wazero"
)

// tightest gives a module whose function "f" of type (i32) -> () counts down to zero: five instructions of an iteration.
func tightest() []byte {
	return cat([]byte(header),
		sec(secType, vec([]byte{formFunction, 1, typeI32, 0})), sec(secFunction, vec(leb(0))), sec(secMemory, vec([]byte{0, 1})),
		sec(secExport, vec(cat(str("f"), []byte{kindFunction, 0}))),
		sec(secCode, vec(sized([]byte{0, opLoop, blockEmpty, opLocalGet, 0, opI32Const, 1, 0x6b, opLocalTee, 0, opBrIf, 0, opEnd, opEnd}))))
}

// recursive gives a module whose function "f" of type (i32) -> () calls itself twice for each number down to zero.
func recursive() []byte {
	call := []byte{opLocalGet, 0, opI32Const, 1, 0x6b, opCall, 0}
	return module{types: list{{formFunction, 1, typeI32, 0}}, functions: list{{0}}, memories: onePage, exports: list{cat(str("f"), []byte{kindFunction, 0})},
		bodies: list{function(cat([]byte{opLocalGet, 0, opIf, blockEmpty}, call, call, []byte{opEnd})...)}}.bytes()
}

// cold gives a module like tightest, whose loop has a call that does not happen.
func cold() []byte {
	return module{types: list{{formFunction, 1, typeI32, 0}}, functions: list{{0}}, memories: onePage, exports: list{cat(str("f"), []byte{kindFunction, 0})},
		bodies: list{function(opLoop, blockEmpty, opLocalGet, 0, opI32Const, 0x7f, 0x46, opIf, blockEmpty, opLocalGet, 0, opCall, 0, opEnd,
			opLocalGet, 0, opI32Const, 1, 0x6b, opLocalTee, 0, opBrIf, 0, opEnd)}}.bytes()
}

// BenchmarkForms runs what suffers most: a loop that does nothing, a loop that could call, and a function that does
// nothing but call.
func BenchmarkForms(b *testing.B) {
	for name, c := range map[string]struct {
		wasm []byte
		n    uint64
		unit float64 // iterations or calls
	}{"loop": {tightest(), 1_000_000, 1_000_000}, "cold": {cold(), 1_000_000, 1_000_000}, "call": {recursive(), 16, 1<<17 - 1}} {
		for form, m := range variants(b, c.wasm) {
			b.Run(name+"/"+form, func(b *testing.B) {
				l, err := load(wazero.NewRuntimeConfigCompiler(), c.wasm, m, unlimited())
				if err != nil {
					b.Fatal(err)
				}
				defer l.close()
				f := l.ExportedFunction("f")
				for b.Loop() {
					if _, err := f.Call(ctx, c.n); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/c.unit, "ns/unit")
			})
		}
	}
}

// floats gives a module whose function "f" of type (i32) -> () counts down to zero, and makes another number
// of the last one in each turn by these instructions.
func floats(instructions ...byte) []byte {
	return module{types: list{{formFunction, 1, typeI32, 0}}, functions: list{{0}}, memories: onePage, exports: list{cat(str("f"), []byte{kindFunction, 0})},
		bodies: list{sized([]byte{1, 1, typeF64}, cat([]byte{opLoop, blockEmpty}, instructions, []byte{opLocalSet, 1,
			opLocalGet, 0, opI32Const, 1, 0x6b, opLocalTee, 0, opBrIf, 0, opEnd, opEnd}))}}.bytes()
}

// BenchmarkNaN runs loops that compute nothing but numbers, whose NaNs are made canonical or not.
func BenchmarkNaN(b *testing.B) {
	const n = 1_000_000
	one := []byte{opF64Const, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f}
	for name, c := range map[string][]byte{
		"add":      floats(cat([]byte{opLocalGet, 1}, one, []byte{0xa0})...),
		"mul, add": floats(cat([]byte{opLocalGet, 1, opLocalGet, 1, 0xa2}, one, []byte{0xa0})...),
		"div":      floats(cat(one, []byte{opLocalGet, 1, 0xa3})...),
	} {
		for _, o := range []Options{{Fuel: true}, {Fuel: true, NaN: true}} {
			b.Run(fmt.Sprint(name, "/", o.NaN), func(b *testing.B) {
				m, err := Rewrite(c, o)
				if err != nil {
					b.Fatal(err)
				}
				l, err := load(wazero.NewRuntimeConfigCompiler(), c, m, unlimited())
				if err != nil {
					b.Fatal(err)
				}
				defer l.close()
				f := l.ExportedFunction("f")
				for b.Loop() {
					if _, err := f.Call(ctx, n); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/turn")
			})
		}
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
