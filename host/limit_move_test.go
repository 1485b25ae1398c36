package host_test

import (
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

// A run that waits for a slot is set aside and taken back. It gets its slot, whether the slot became free in between
// or afterwards.
func TestTakeBackWaiting(t *testing.T) {
	for _, given := range []string{"while it is away", "when it is back"} {
		h := newPrinted(t)
		h.limit("1", "")
		h.start("first", "{}")
		h.stand("first", "")
		h.start("waits", "{}")
		h.stand("first", "waits")
		move(t, h.Host.Host, "waits")
		if given == "while it is away" {
			h.Advance(time.Minute)
		}
		_, err := h.TakeBack(ctx, "waits")
		do(t, err)
		h.Settle()
		if given != "while it is away" {
			h.stand("first", "waits")
			h.Advance(time.Minute)
		}
		h.stand("waits", "")
		h.Advance(time.Minute)
		h.start("last", "{}")
		h.stand("last", "")
		if r := get(t, h.Host, "waits"); r.Status != host.Completed {
			t.Errorf("given %s: %+v", given, r)
		}
	}
}
