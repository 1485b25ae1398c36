package instrument

import (
	"bytes"
	"slices"
	"testing"
)

// TestGoGuest runs a Go program, original and rewritten, on both engines, twice: results and memory are equal, and so
// is the used fuel.
func TestGoGuest(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles and interprets a whole Go program")
	}
	wasm := goGuest(t)
	all := variants(t, wasm)
	for name, m := range all {
		if m != nil {
			t.Logf("%s: %d -> %d bytes, %d globals, %d segments, start %q, refusal %q", name, len(wasm), len(m.Wasm), len(m.Globals), len(m.Data), m.Start, m.Refusal)
		}
	}
	var results []string
	var memory []byte
	var fuel []int64
	for engine, config := range engines {
		for _, name := range []string{"original", "exports", "fuel", "fuel"} {
			l, err := load(config(), wasm, all[name], unlimited())
			if err != nil {
				t.Fatal(name, err)
			}
			got := []string{l.outcome("_initialize"), l.outcome("run", 5), l.outcome("run", 30), l.outcome("spin", 1000)}
			if results == nil {
				results, memory = got, l.memory()
			}
			if !slices.Equal(got, results) {
				t.Errorf("%s, %s: %q, want %q", engine, name, got, results)
			}
			if !bytes.Equal(memory, l.memory()) {
				t.Errorf("%s, %s: the memory differs", engine, name)
			}
			if name == "fuel" {
				fuel = append(fuel, l.tank.used())
			}
			l.close()
		}
	}
	t.Log(results, fuel)
	if len(slices.Compact(fuel)) != 1 {
		t.Errorf("it pays %d", fuel)
	}
}
