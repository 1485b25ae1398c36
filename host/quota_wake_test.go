package host_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestQuotaOfWakes has more runs of a namespace sleep until one instant than may wake per second: they wake one after
// the other, also after a crash. Runs of another namespace wake when they are due.
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

// TestQuotaOfWakesHoldsNoOthers has many runs overdue under a quota of one wake per second: other runs that are
// signalled or started continue at once.
func TestQuotaOfWakesHoldsNoOthers(t *testing.T) {
	const n = 100
	h := hosttest.New(t)
	m := wasmgen.New(0).Text("go").I64(-1).I32(0).I32(0).Call(abi.FnSignalWait).Drop()
	a := tenant(t, h, "a", m.I32(0))
	do(t, h.SetQuota(ctx, "a", host.Quota{WakesPerSecond: 1}))
	for i := range n {
		_, err := a.StartRaw(ctx, "nap", []byte("1h"), host.WithRunID(fmt.Sprint("nap", i)))
		do(t, err)
		_, err = a.StartRaw(ctx, "w", nil, host.WithRunID(fmt.Sprint("w", i)))
		do(t, err)
	}
	h.Advance(time.Hour + 500*time.Millisecond)
	for i := range n {
		do(t, a.Signal(ctx, fmt.Sprint("w", i), "go", nil))
		_, err := a.StartRaw(ctx, "w", nil, host.WithRunID(fmt.Sprint("late", i)))
		do(t, err)
	}
	h.Settle()
	for i := range n {
		for id, status := range map[string]host.Status{"w": host.Completed, "late": host.Waiting} {
			if r, err := a.Get(ctx, fmt.Sprint(id, i)); err != nil || r.Status != status {
				t.Fatalf("%s%d is %v, %v", id, i, r.Status, err)
			}
		}
	}
	if n := h.Stats().Timers; n < 90 {
		t.Errorf("%d naps wait", n)
	}
}
