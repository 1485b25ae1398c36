package host_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestQuotaOfWakes has more runs of a namespace sleep to one instant than it may wake in a second: they wake one after the other, also
// after a crash, and those of another namespace wake when they are due.
func TestQuotaOfWakes(t *testing.T) {
	h := hosttest.New(t)
	do(t, h.SetQuota(ctx, "a", host.Quota{WakesPerSecond: 4}))
	a, b := tenant(t, h, "a", nil), tenant(t, h, "b", nil)
	for i := range 20 {
		for _, ns := range []*host.Namespace{a, b} {
			_, err := ns.StartRaw(ctx, "nap", []byte("1d"), host.WithRunID(fmt.Sprint("r", i)))
			do(t, err)
		}
	}
	ended := func(ns *host.Namespace) (n int) {
		t.Helper()
		for i := range 20 {
			r, err := ns.Get(ctx, fmt.Sprint("r", i))
			do(t, err)
			if r.Status == host.Completed {
				n++
			}
		}
		return n
	}
	h.Settle()
	h.Advance(24 * time.Hour)
	want(t, ended(b), 20)
	want(t, ended(a), 4)
	next, ok := h.Settle()
	want(t, ok, true)
	want(t, next.Sub(hosttest.Epoch), 24*time.Hour+250*time.Millisecond)
	h.Advance(249 * time.Millisecond)
	want(t, ended(a), 4)
	h.Advance(time.Millisecond)
	want(t, ended(a), 5)
	h.Advance(500 * time.Millisecond)
	want(t, ended(a), 7)

	for i := range 20 { // one that waits for its wake
		if r, err := a.Get(ctx, fmt.Sprint("r", i)); err == nil && r.Status == host.Sleeping {
			do(t, a.Terminate(ctx, r.ID))
			break
		}
	}
	do(t, h.SetQuota(ctx, "a", host.Quota{WakesPerSecond: 2}))
	h.Advance(250 * time.Millisecond)
	n := ended(a)
	h.Crash() // forgets what was used of a second
	a, err := h.Namespace(ctx, "a")
	do(t, err)
	h.Settle()
	if m := ended(a); m != n+2 {
		t.Errorf("%d have ended, %d before the crash", m, n)
	}
	do(t, h.SetQuota(ctx, "a", host.Quota{}))
	h.Advance(time.Second)
	if n := ended(a); n != 19 {
		t.Errorf("%d have ended without a quota", n)
	}
}
