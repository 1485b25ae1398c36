package host

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/wfhost/wfhost/host/internal/admission"
)

func TestGCPercent(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{{0, 1600}, {4 << 20, 1600}, {6 << 20, 1066}, {32 << 20, 200}, {64 << 20, 100}, {128 << 20, 100}, {192 << 20, 66}, {256 << 20, 25}, {512 << 20, 25}, {1 << 40, 25}} {
		if got := gcPercent(c.live); got != c.want {
			t.Errorf("%d bytes alive: %d %%, want %d", c.live, got, c.want)
		}
	}
}

var kept []byte

// TestTune: the rule follows the live heap from one collection to the next, unless the user has set a value.
func TestTune(t *testing.T) {
	procs, percent := runtime.GOMAXPROCS(0), debug.SetGCPercent(100)
	t.Cleanup(func() {
		admission.Spare.Store(0)
		runtime.GOMAXPROCS(procs)
		debug.SetGCPercent(percent)
	})
	rule := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	t.Setenv("GOMAXPROCS", "1")
	t.Setenv("GOGC", "100")
	Tune()
	if runtime.GOMAXPROCS(0) != procs || rule() != 100 {
		t.Fatal("what was set by the environment was changed")
	}
	t.Setenv("GOMAXPROCS", "")
	t.Setenv("GOGC", "")
	Tune()
	if got := runtime.GOMAXPROCS(0); got != procs+1 || admission.Spare.Load() != 1 {
		t.Errorf("GOMAXPROCS %d, want %d; %d of them are spare", got, procs+1, admission.Spare.Load())
	}
	// The live heap is unknown before the first collection, and finalizers run a moment after it.
	collect := func(until func(percent int) bool) {
		t.Helper()
		for range 1000 {
			if until(rule()) {
				return
			}
			runtime.GC()
		}
		t.Errorf("the rule stays at %d %%", rule())
	}
	collect(func(percent int) bool { return percent > 100 })
	kept = make([]byte, 2*gcHeadroomBytes)
	collect(func(percent int) bool { return percent <= 100 && percent > 50 })
	kept = nil
}
