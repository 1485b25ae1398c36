package wazero

import (
	"testing"

	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/conform"
)

// TestConformance tests the compiler and the interpreter.
func TestConformance(t *testing.T) {
	for name, cfg := range map[string]Config{"compiler": {}, "interpreter": {Interpreter: true}} {
		t.Run(name, func(t *testing.T) {
			conform.Run(t, func(t *testing.T) engine.Engine { return newEngine(t, cfg) })
		})
	}
}
