package host_test

import (
	"testing"
	"time"
)

// TestWaitsThatBeganBehind sets the clock a day back for a moment in which runs begin to wait: the waits last their
// full time, counted from their beginning by the corrected clock.
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
