package host_test

import (
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

// holds checks how many runs hold a slot, and how many wait for one.
func (h *printed) holds(holding, waiting int64) {
	h.t.Helper()
	h.Settle()
	if info, err := h.WorkflowLimits().Get(ctx, "print"); err != nil || int64(info.Holding) != holding || int64(info.Waiting) != waiting {
		h.t.Errorf("%d hold a slot and %d wait, want %d and %d; %v", info.Holding, info.Waiting, holding, waiting, err)
	}
}

// TestTakeBackWithLimits takes back runs that hold a slot, wait for one, or got one while they were set aside.
func TestTakeBackWithLimits(t *testing.T) {
	h := newPrinted(t)
	h.limit("1", "")
	for _, id := range []string{"a", "b", "c"} {
		h.start(id, "{}")
	}
	back := func(id string) {
		changed, err := h.TakeBack(ctx, id)
		want(t, changed, true)
		do(t, err)
		h.Settle()
	}
	h.stand("a", "b c")
	for _, id := range []string{"a", "b"} {
		move(t, h.Host.Host, id)
	}
	h.stand("", "c")
	h.holds(1, 2)
	back("b")
	back("a")
	h.stand("a", "b c")
	h.Advance(time.Minute)
	h.stand("b", "c")
	move(t, h.Host.Host, "c")
	h.Advance(time.Minute)
	h.holds(1, 0)
	h.Crash()
	back("c")
	h.stand("c", "")
	h.Advance(time.Minute)
	h.stand("", "")
	h.holds(0, 0)
}

// TestAdoptWithLimits adopts runs that had a slot or waited for one: they ask for a slot on the new server, and keep
// the slot on the old one until they are terminated there.
func TestAdoptWithLimits(t *testing.T) {
	h, q := newPrinted(t), newPrinted(t)
	for _, x := range []*printed{h, q} {
		x.limit("1", "")
	}
	for _, id := range []string{"a", "b"} {
		h.start(id, "{}")
	}
	h.stand("a", "b")
	q.start("x", "{}")
	q.stand("x", "")
	for _, id := range []string{"a", "b"} {
		adopt(t, q.Host, move(t, h.Host.Host, id))
	}
	h.holds(1, 1)
	q.holds(1, 2)
	q.stand("x", "a b")
	for _, id := range []string{"a", "b"} {
		do(t, h.Terminate(ctx, id))
	}
	h.holds(0, 0)
	q.Advance(time.Minute)
	if r := get(t, q.Host, "a"); r.Status != host.Completed || !r.Ended.Equal(q.Clock.Now()) { // its sleep was over
		t.Errorf("%+v", r)
	}
	q.stand("b", "")
	do(t, q.WorkflowLimits().Delete(ctx, "print"))
	q.Advance(time.Minute)
	want(t, get(t, q.Host, "b").Status, host.Completed)

	free := newPrinted(t) // without limits
	h.start("c", "{}")
	h.stand("c", "")
	adopt(t, free.Host, move(t, h.Host.Host, "c"))
	free.stand("c", "")
}
