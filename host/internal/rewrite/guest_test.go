package rewrite

import (
	"bytes"
	"testing"

	"github.com/tetratelabs/wazero"
)

// TestGoGuest runs a Go program as it is and rewritten: the results and the memory are the same.
func TestGoGuest(t *testing.T) {
	wasm := goGuest(t)
	var results []string
	var memory []byte
	var fuel []int64
	for name, m := range variants(t, wasm) {
		if m != nil {
			t.Logf("%s: %d -> %d bytes, %d globals, %d segments", name, len(wasm), len(m.Wasm), len(m.Globals), len(m.Data))
		}
		l, err := load(wazero.NewRuntimeConfigCompiler(), wasm, m, unlimited())
		if err != nil {
			t.Fatal(name, err)
		}
		defer l.close()
		got := []string{l.outcome("_initialize"), l.outcome("run", 5), l.outcome("run", 100), l.outcome("spin", 1000)}
		if results == nil {
			results, memory = got, l.memory()
		}
		for i := range results {
			if results[i] != got[i] {
				t.Errorf("%s: %q, want %q", name, got[i], results[i])
			}
		}
		if !bytes.Equal(memory, l.memory()) {
			t.Errorf("%s: the memory differs", name)
		}
		if name == "fuel" {
			fuel = append(fuel, l.tank.used())
		}
	}
	t.Log(results, fuel)
}
