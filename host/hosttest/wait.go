package hosttest

import (
	"context"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
)

// usualPatience is how long, by the machine's clock, Wait waits for a run while nothing happens in the host and its
// clock stands still.
const usualPatience = 30 * time.Second

// Wait is host.Host.Wait with an end: it returns an error if the host has crashed, or if nothing happens in it and its
// clock stands still for half a minute. So does ResultRaw, and with it host.Result.
func (h *Host) Wait(ctx context.Context, id string) (host.Run, error) {
	h.t.Helper()
	of := h.Host
	if of == nil || h.crash.crashed() {
		return host.Run{}, crashed(id)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go h.watch(ctx, of, id, cancel)
	r, err := of.Wait(ctx, id)
	if err != nil && context.Cause(ctx) != ctx.Err() {
		err = context.Cause(ctx)
	}
	return r, err
}

// ResultRaw is host.Host.ResultRaw with the Wait above.
func (h *Host) ResultRaw(ctx context.Context, id string) ([]byte, error) {
	h.t.Helper()
	if _, err := h.Wait(ctx, id); err != nil {
		return nil, err
	}
	return h.Host.ResultRaw(ctx, id)
}

func crashed(id string) error {
	return fmt.Errorf("wait for run %s: %w: it has crashed, and Reopen starts it again", id, host.ErrClosed)
}

// watch cancels a wait for a run when nothing has happened for too long.
func (h *Host) watch(ctx context.Context, of *host.Host, id string, giveUp context.CancelCauseFunc) {
	var last string
	for still := 0; still < 100; still++ {
		look := clock.System().NewTimer(h.patience / 100)
		select {
		case <-look.C():
		case <-ctx.Done():
			look.Stop()
			return
		}
		if h.crash.crashed() {
			giveUp(crashed(id))
			return
		}
		idle, cancel := context.WithTimeout(ctx, h.patience/100)
		next, _, err := of.WaitIdle(idle)
		cancel()
		r, gone := of.Get(ctx, id)
		now := fmt.Sprint(h.Clock.Now(), next, r.Status, r.Entries, r.Iteration)
		if err != nil || gone != nil || now != last {
			last, still = now, 0
		}
	}
	r, err := of.Get(ctx, id)
	if err != nil {
		return
	}
	giveUp(fmt.Errorf("run %s is %s (%s), nothing happens in the host, and its clock stands at %s: move it by Advance, or use "+
		"Finish", id, r.Status, r.Reason, h.Clock.Now().UTC().Format(time.RFC3339)))
}
