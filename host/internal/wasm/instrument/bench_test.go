package instrument

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
)

// tightest returns a module whose function "f" of type (i32) -> () counts down to zero: five instructions per
// iteration.
func tightest() []byte {
	return cat([]byte(header),
		sec(secType, vec([]byte{formFunction, 1, typeI32, 0})), sec(secFunction, vec(leb(0))), sec(secMemory, vec([]byte{0, 1})),
		sec(secExport, vec(cat(str("f"), []byte{kindFunction, 0}))),
		sec(secCode, vec(sized([]byte{0, opLoop, blockEmpty, opLocalGet, 0, opI32Const, 1, 0x6b, opLocalTee, 0, opBrIf, 0, opEnd, opEnd}))))
}

// recursive returns a module whose function "f" of type (i32) -> () calls itself twice for each number down to zero.
func recursive() []byte {
	call := []byte{opLocalGet, 0, opI32Const, 1, 0x6b, opCall, 0}
	return module{types: list{{formFunction, 1, typeI32, 0}}, functions: list{{0}}, memories: onePage, exports: list{cat(str("f"), []byte{kindFunction, 0})},
		bodies: list{function(cat([]byte{opLocalGet, 0, opIf, blockEmpty}, call, call, []byte{opEnd})...)}}.bytes()
}

// cold returns a module like tightest, whose loop has a call that is never executed.
func cold() []byte {
	return module{types: list{{formFunction, 1, typeI32, 0}}, functions: list{{0}}, memories: onePage, exports: list{cat(str("f"), []byte{kindFunction, 0})},
		bodies: list{function(opLoop, blockEmpty, opLocalGet, 0, opI32Const, 0x7f, 0x46, opIf, blockEmpty, opLocalGet, 0, opCall, 0, opEnd,
			opLocalGet, 0, opI32Const, 1, 0x6b, opLocalTee, 0, opBrIf, 0, opEnd)}}.bytes()
}

// BenchmarkForms runs the worst cases: an empty loop, a loop with a call that is not executed, and a function that
// only makes calls.
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

// floats returns a module whose function "f" of type (i32) -> () counts down to zero, and in each iteration computes
// a new number from the last one by the given instructions.
func floats(instructions ...byte) []byte {
	return module{types: list{{formFunction, 1, typeI32, 0}}, functions: list{{0}}, memories: onePage, exports: list{cat(str("f"), []byte{kindFunction, 0})},
		bodies: list{sized([]byte{1, 1, typeF64}, cat([]byte{opLoop, blockEmpty}, instructions, []byte{opLocalSet, 1,
			opLocalGet, 0, opI32Const, 1, 0x6b, opLocalTee, 0, opBrIf, 0, opEnd, opEnd}))}}.bytes()
}

// BenchmarkNaN runs loops that only compute numbers, with and without canonical NaNs.
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

// BenchmarkBudget runs several programs, original and metered: testdata/budget in C (of which machine is an
// interpreter), and testdata/guest in Go. The metric metered is the ratio of their times, and budget the nanoseconds
// of fuel per nanosecond of the original: it should be 0.8 to 1.2, so that the ten seconds that a workflow may
// compute are right. If the variable WFHOST_BENCH_JS names a JavaScript engine that exports js(program, times i32) ->
// i32, it is measured, too.
func BenchmarkBudget(b *testing.B) {
	c, err := os.ReadFile("testdata/budget/programs.wasm")
	if err != nil {
		b.Fatal(err)
	}
	budgetOf := func(name string, wasm []byte, f string, args ...uint64) {
		b.Run(name, func(b *testing.B) { measure(b, wasm, f, args...) })
	}
	for _, f := range strings.Fields("count sum sieve sort mix matrix calls divide chase machine") {
		budgetOf("c/"+f, c, f, 100)
	}
	guest := goGuest(b)
	budgetOf("go/run", guest, "run", 20)
	budgetOf("go/spin", guest, "spin", 1_000_000)
	if path := os.Getenv("WFHOST_BENCH_JS"); path != "" {
		js, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		for i := range uint64(11) {
			budgetOf(fmt.Sprint("js/", i), js, "js", i, 4)
		}
	}
}

// measure compares a function of a module with the metered one, alternating, by the minimum time of each.
func measure(b *testing.B, wasm []byte, f string, args ...uint64) {
	m, err := Rewrite(wasm, Options{Fuel: true})
	if err != nil {
		b.Fatal(err)
	}
	var both [2]*loaded
	least := [2]time.Duration{math.MaxInt64, math.MaxInt64}
	for i, m := range []*Module{nil, m} {
		both[i], err = load(wazero.NewRuntimeConfigCompiler(), wasm, m, unlimited())
		if err != nil {
			b.Fatal(err)
		}
		defer both[i].close()
		if both[i].ExportedFunction("_initialize") != nil {
			both[i].outcome("_initialize")
		}
	}
	var used int64
	for b.Loop() {
		for i, l := range both {
			before, begin := l.tank.used(), time.Now()
			l.outcome(f, args...)
			least[i], used = min(least[i], time.Since(begin)), l.tank.used()-before
		}
	}
	b.ReportMetric(float64(least[1])/float64(least[0]), "metered")
	b.ReportMetric(float64(used)/Ticks/float64(least[0]), "budget")
}

// BenchmarkGo compiles and runs a Go program, original and rewritten.
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
