package engine

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"testing"
)

//go:embed SUMS
var sums string

// TestSum compares the engine with its checksum in the file SUMS, which build.sh writes. "make js-engine-check"
// builds the engine if the tools in the file TOOLS are installed.
func TestSum(t *testing.T) {
	if got := fmt.Sprintf("%x  engine.wasm\n", sha256.Sum256(Wasm())); got != sums {
		t.Errorf("the engine's sum is\n%s\nand SUMS has\n%s", got, sums)
	}
}
