package runtime

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/wfhost/wfhost/host/internal/clock"
)

// TestIdleAfterFailure waits for the host to be idle while a deadline has passed, and lets the store fail. If Run is
// called only then, it returns the failure without starting.
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
