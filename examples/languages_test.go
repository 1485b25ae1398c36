package examples_test

import (
	"errors"
	"testing"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/toolchain"
	"github.com/wfhost/wfhost/host/hosttest"
)

// compile makes a module of an example in another language than Go, or skips the test.
func compile(t *testing.T, name string) []byte {
	t.Helper()
	wasm, err := toolchain.Compile(t.Context(), name)
	if missing, ok := errors.AsType[*toolchain.MissingError](err); ok {
		t.Skipf("SKIPPED: %v; the examples in %s were not tested", missing, missing.Lang)
	}
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// TestLanguages has the workflows of other languages do what those in Go do.
func TestLanguages(t *testing.T) {
	for _, name := range []string{"c", "cpp", "rust", "assemblyscript"} {
		t.Run(name, func(t *testing.T) {
			wasm := compile(t, name)
			t.Run("drip", func(t *testing.T) {
				e := newExampleOf(t, "drip", wasm)
				e.begin("a", map[string]string{"email": "ada@example.com"})
				for e.Clock.Now().Before(hosttest.Epoch.Add(3 * day)) {
					e.Advance(12 * time.Hour)
					e.Crash()
				}
				e.is(e.ends("a"), "4")
				if took := e.Clock.Now().Sub(hosttest.Epoch); took != 6*day {
					t.Error(took)
				}
			})
			t.Run("approval", func(t *testing.T) { testApproval(t, wasm) })
			t.Run("orders", func(t *testing.T) { testOrders(t, wasm) })
		})
	}
}
