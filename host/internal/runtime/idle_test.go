package runtime

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/wfhost/wfhost/host/internal/clock"
)

// TestIdleAfterFailure waits for Run while something is due, and the store fails: Run only says so then, and does not begin.
func TestIdleAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &Runtime{cfg: Config{Clock: clock.System()}, life: newLife(context.Background())}
		over := make(chan bool, 1)
		go func() { over <- rt.waitsForRun(context.Background(), 0) }()
		synctest.Wait()
		close(rt.life.failing)
		if <-over {
			t.Error("Run has not begun")
		}
	})
}
