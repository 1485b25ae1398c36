package host_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/clock"
)

// TestWaitsAfterALongComputation advances the clock by 100 s at each of its readings in turn while a guest computes,
// as if that took so long: a wait that begins afterwards lasts a minute from then, and a wait that has begun ends on
// time.
func TestWaitsAfterALongComputation(t *testing.T) {
	const long = 100 * time.Second
	c := &jumpingClock{Fake: clock.NewFake(hosttest.Epoch), by: long}
	c.left.Store(-1)
	k := newClocked(t, c, c.Fake)
	ns, err := k.Namespace(ctx, "clocks")
	do(t, err)
	_, err = ns.Upload(ctx, "", hosttest.Build(t, "testdata/clocks"), host.AllowStep("*"))
	do(t, err)
	for _, kind := range []string{"sleep", "signal", "hook", "time.Sleep", "select"} {
		before, after := 0, 0
		jumped := true
		for n := 0; jumped && n < 100; n++ {
			id := fmt.Sprintf("%s-%d", idOf(kind), n)
			began := c.Fake.Now()
			c.left.Store(int64(n + 1))
			_, err := ns.Start(ctx, "waits", map[string]any{"Kind": kind, "Ms": waitsMs}, host.WithRunID(id))
			do(t, err)
			k.settle()
			c.left.Store(-1)
			jumped = c.Fake.Now().Sub(began) == long
			r, err := ns.Get(ctx, id)
			do(t, err)
			if !r.Status.Terminal() { // it began to wait after the computation, or the clock was not read
				before++
				k.pass(time.Minute, time.Minute)
				r, err = ns.Get(ctx, id)
				do(t, err)
			} else {
				after++
			}
			if r.Status != host.Completed {
				t.Fatalf("%s, 100 s at reading %d: %s until %v", kind, n+1, r.Status, r.Wake)
			}
			var out struct{ Began, Ended int64 }
			b, err := ns.ResultRaw(ctx, id)
			do(t, err)
			do(t, json.Unmarshal(b, &out))
			if d := out.Ended - out.Began; d < waitsMs-abi.MaxLagMs || d > waitsMs+long.Milliseconds() || !jumped && d != waitsMs {
				t.Errorf("%s, 100 s at reading %d: it waited for %d ms", kind, n+1, d)
			}
		}
		if before == 0 || jumped {
			t.Errorf("%s: the clock moved %d times before the wait, and %d times in it; it has moved: %t", kind, before, after, jumped)
		}
	}
}
