package host_test

import (
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// bomb returns a workflow named w that starts n children of itself, and sleeps for an hour.
func bomb(n int64) *wasmgen.Module {
	m := wasmgen.New(1).While().Get(0).I64(n).NotLess().Break()
	for digit, place := int32(0), int64(1); digit < 5; digit, place = digit+1, place*10 { // the name of the child
		m.I32(16 + digit).Get(0).I64(place).Div().I64(10).Rem().I64('0').Add().Wrap().Store8()
	}
	m.I32(16).I32(5).Text("w").I32(0).I32(0).Text(`{"on_end":"abandon"}`).Call(abi.FnChildStart).Drop()
	return m.Count(0, 1).EndWhile().Text("hour").I64(3_600_000).Call(abi.FnSleep).Drop().I32(0)
}

// refusals returns the refused calls in a run's journal.
func refusals(t *testing.T, h *hosttest.Host, id string) (list []string) {
	t.Helper()
	for e, err := range h.Journal(ctx, id, 0) {
		do(t, err)
		if e.Refused != 0 {
			list = append(list, string(e.Data))
		}
	}
	return list
}

// TestForkBomb has each run start two children: they reach a standstill, and all of them can be replayed.
func TestForkBomb(t *testing.T) {
	h := handmade(t, bomb(2), hosttest.WithConfig(func(c *host.Config) { c.MaxChildren = 5 }))
	h.Settle()
	runs := 0
	for r, err := range h.Runs(ctx, host.Query{}) {
		do(t, err)
		if r.Status != host.Sleeping && r.Status != host.Waiting {
			t.Errorf("%s is %v", r.ID, r.Status)
		}
		do(t, h.Replay(ctx, r.ID))
		runs++
	}
	// The limits are 5, 2, 1, 1 …: 1 and 2 runs, and 4 on each level below.
	want(t, runs, 1+2+4*(abi.MaxChildDepth-1))
	h.Crash()
	h.Advance(30 * time.Minute)
	counts, err := h.Counts(ctx, "w")
	do(t, err)
	want(t, counts.Total()-counts[host.Sleeping]-counts[host.Waiting], int64(0))
}

// TestLiveChildren starts more children than may live: the excess is refused with a sentence. A replay finds the same
// refusals, even if the limit has changed.
func TestLiveChildren(t *testing.T) {
	limit := 3
	h := handmade(t, bomb(5), hosttest.WithConfig(func(c *host.Config) { c.MaxChildren = limit }))
	h.Settle()
	got := refusals(t, h, "r")
	sentence := "the run has 3 children that have not ended, the limit for one that stands 0 runs below the first one is 3"
	if len(got) != 2 || !strings.Contains(got[0], sentence) || !strings.Contains(got[0], "LIMIT") {
		t.Fatal(got)
	}
	limit = 100
	h.Crash()
	do(t, h.Replay(ctx, "r"))
	h.Advance(2 * time.Hour)
	want(t, h.Finish("r").Status, host.Completed)
	want(t, len(refusals(t, h, "r")), 2)
}

func TestMaxChildrenIsNotNegative(t *testing.T) {
	_, err := host.Open(ctx, host.Config{Dir: t.TempDir(), MaxChildren: -1})
	if err == nil || !strings.Contains(err.Error(), "MaxChildren") {
		t.Fatal(err)
	}
}
