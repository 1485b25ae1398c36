package calls

import (
	"runtime"
	"testing"
)

// A start-up yields to other goroutines, whatever it is doing.
func TestOthersGoFirst(t *testing.T) {
	turns := 0
	letOthers = func() { turns++ }
	defer func() { letOthers = runtime.Gosched }()
	for what, do := range map[string]func(h *StartHost) error{
		"64 calls":      func(h *StartHost) error { return times(callsAlone, h.Enter) },
		"64 KiB":        func(h *StartHost) error { return h.Work(bytesAlone) },
		"64 × 1 KiB":    func(h *StartHost) error { return times(64, func() error { return h.Work(1 << 10) }) },
		"grant of fuel": (*StartHost).Refuel,
	} {
		h := NewStartHost(t.Context())
		for range 10 {
			turns = 0
			if err := do(h); err != nil {
				t.Fatal(err)
			}
			if turns != 1 {
				t.Errorf("%s: others were let go first %d times, want once", what, turns)
			}
		}
	}
}

func times(n int, do func() error) error {
	for range n {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}
