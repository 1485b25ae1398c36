package instrument

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/api"
)

// history is everything observable about an instance while its functions are called.
func history(t testing.TB, l *loaded) (h []string) {
	t.Helper()
	own := 0
	for l.ExportedFunction(fmt.Sprint("e", own)) != nil {
		own++
	}
	for i := range own {
		f := l.ExportedFunction(fmt.Sprint("e", i))
		args := []uint64{1, 2, 3}[:len(f.Definition().ParamTypes())]
		l.ExportedGlobal("x0").(api.MutableGlobal).Set(200)
		h = append(h, fmt.Sprint("e", i, ": ", l.outcome(fmt.Sprint("e", i), args...)))
		for g := range mutableGlobals {
			h = append(h, l.ExportedGlobal(fmt.Sprint("x", g)).String())
		}
		if l.m != nil && l.m.Refusal == "" {
			for g, exported := range l.m.Globals {
				if want := l.ExportedGlobal(fmt.Sprint("x", g)); want.Get() != l.ExportedGlobal(exported.Export).Get() || want.Type() != exported.Type {
					t.Errorf("%+v is not global %d", exported, g)
				}
			}
		}
		h = append(h, fmt.Sprintf("%x", bytes.TrimRight(l.memory(), "\x00")))
	}
	return h
}

// TestRandomModules compares random modules with their rewritten forms on both engines: they behave the same, and the
// used fuel depends neither on the engine nor on how often the host is asked for fuel.
func TestRandomModules(t *testing.T) {
	n := 150
	if testing.Short() {
		n = 20
	}
	var failed, traps, calls, refused, paid int
	for seed := range uint64(n) {
		wasm := randomModule(seed, seed%4 == 0)
		all := variants(t, wasm)
		if all["fuel"].Refusal != "" {
			refused++
		}
		var fuel []int64
		for engine, config := range engines {
			var want []string
			for _, name := range []string{"original", "exports", "fuel", "fuel", "numbers", "looking"} {
				k := unlimited()
				k.portion >>= 29 * len(fuel) % 30
				l, err := load(config(), wasm, all[name], k)
				got := []string{"it does not start"}
				if err == nil {
					got = history(t, l)
				} else if !strings.Contains(err.Error(), "wasm error") { // a trap of the start function
					t.Fatalf("seed %d, %s, %s: %v", seed, engine, name, err)
				}
				if want == nil {
					want = got
				}
				for i := range max(len(want), len(got)) {
					if i >= len(want) || i >= len(got) || want[i] != got[i] {
						t.Fatalf("seed %d, %s, %s: %d: %.2000q, want %.2000q", seed, engine, name, i, got, want)
					}
				}
				if err != nil {
					failed++
					continue
				}
				if name != "original" && name != "exports" { // neither numbers nor looks cost anything
					fuel = append(fuel, k.used())
					paid += k.calls
				}
				l.close()
			}
			calls += len(want)
			traps += strings.Count(fmt.Sprint(want), "wasm error")
		}
		for _, f := range fuel {
			if f != fuel[0] || f <= 0 {
				t.Fatalf("seed %d: they pay %v", seed, fuel)
			}
		}
	}
	t.Logf("%d modules, %d refused, %d failed starts, %d observations, %d traps, %d calls for fuel", n, refused, failed, calls, traps, paid)
}
