package host_test

import (
	"testing"
	"time"
)

// TestWaitsThatBeganBehind has the clock be a day behind for a moment, in which runs begin to wait: they wait as long as they say,
// counted from when they began, by the clock that is right.
func TestWaitsThatBeganBehind(t *testing.T) {
	for name, restart := range map[string]func(w *waits){
		"in memory": func(*waits) {},
		"kill":      func(w *waits) { w.Crash() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWaits(t, relativeKinds...)
			w.begin("signal")
			w.at(10)
			w.each("pause", func(id string) error { _, err := w.Pause(ctx, id); return err }) // the journals know what the clock shows
			w.each("unpause", func(id string) error { _, err := w.Unpause(ctx, id); return err })
			w.Clock.Step(-24 * time.Hour)
			w.each("signal", func(id string) error { return w.Signal(ctx, id, "go", "x") })
			w.Settle()
			restart(w)
			w.Clock.Step(24 * time.Hour)
			w.Settle()
			w.last(10+60, false)
		})
	}
}
