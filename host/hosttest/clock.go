package hosttest

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
)

// Clock is a clock that stands still until a test moves it, for host.Config.Clock.
type Clock = clock.Fake

// NewClock returns a clock that stands at start.
func NewClock(start time.Time) *Clock { return clock.NewFake(start) }

// Advance moves the clock of a host forward by d, from deadline to deadline, and waits at each until all is done,
// sweeps of retentions included. The host must be running; it may belong to a server, with a store on disk. A Host has
// its own Advance.
func Advance(ctx context.Context, h *host.Host, c *Clock, d time.Duration) error {
	end := c.Now().Add(d)
	for {
		next, ok, err := rest(ctx, h, c)
		if err != nil {
			return err
		}
		if !ok || next.After(end) {
			break
		}
		c.Set(next)
	}
	c.Set(end)
	_, _, err := rest(ctx, h, c)
	return err
}

// rest waits until nothing happens any more at this instant, and returns the next deadline, false if there is none.
func rest(ctx context.Context, h *host.Host, c *Clock) (next time.Time, ok bool, err error) {
	for {
		next, ok, err = h.WaitIdle(ctx)
		now := c.Now()
		sweep := h.Stats().NextSweep
		sweeping := !sweep.IsZero() && !sweep.After(now)
		if err != nil || !sweeping && (!ok || next.After(now)) {
			return next, ok, err
		}
		if err := breathe(ctx); err != nil {
			return next, ok, err
		}
	}
}

// breathe waits a moment, so that due timers can fire.
func breathe(ctx context.Context) error {
	t := clock.System().NewTimer(100 * time.Microsecond)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
