package host_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// largest returns the maximum attributes of a run.
func largest() map[string]string {
	a := map[string]string{}
	for i := range abi.MaxAttributes {
		a[fmt.Sprint("key", i)] = strings.Repeat("x", abi.MaxAttributeBytes)
	}
	return a
}

// TestFullPages lists large runs and schedules: a page ends before its limit, and all pages together are complete.
func TestFullPages(t *testing.T) {
	const n = 40
	h := handmade(t, wasmgen.New(0).Text("nap").I64(1<<40).Call(abi.FnSleep).Drop().I32(0))
	do(t, h.Terminate(ctx, "r"))
	for i := range n {
		_, err := h.Start(ctx, "w", nil, host.WithRunID(fmt.Sprintf("r%02d", i)), host.WithAttributes(largest()))
		do(t, err)
		_, err = h.Schedules().Create(ctx, fmt.Sprintf("s%02d", i), host.ScheduleSpec{Workflow: "w", When: "0 0 1 1 *",
			Input: []byte(`"` + strings.Repeat("x", 60<<10) + `"`)})
		do(t, err)
	}
	h.Settle()
	var runs, timers, schedules []string
	q := host.Query{Workflow: "w", Status: host.Sleeping, Order: host.OldestFirst, Limit: host.MaxPage}
	for first := true; first || q.Cursor != ""; first = false {
		page, err := h.RunPage(ctx, q)
		do(t, err)
		if len(page.Runs) > host.MaxPageBytes>>16 {
			t.Errorf("a page of %d runs", len(page.Runs))
		}
		for _, r := range page.Runs {
			runs = append(runs, r.ID)
		}
		q.Cursor = page.Next
	}
	for x, err := range h.Timers(ctx, time.Time{}) {
		do(t, err)
		timers = append(timers, x.RunID)
	}
	after := ""
	for first := true; first || after != ""; first = false {
		page, err := h.Schedules().Page(ctx, after, host.MaxSchedules)
		do(t, err)
		if len(page.Schedules) > host.MaxPageBytes>>16 {
			t.Errorf("a page of %d schedules", len(page.Schedules))
		}
		for _, s := range page.Schedules {
			schedules = append(schedules, s.ID)
		}
		after = page.Next
	}
	for what, ids := range map[string][]string{"runs": runs, "timers": timers, "schedules": schedules} {
		slices.Sort(ids)
		if len(ids) != n || len(slices.Compact(ids)) != n {
			t.Errorf("%d %s: %v", len(ids), what, ids)
		}
	}
	all, err := h.Schedules().List(ctx, "s00", n)
	do(t, err)
	want(t, len(all), n-1)
	page, err := h.Schedules().Page(ctx, "s37", 2)
	do(t, err)
	want(t, page.Next, "") // the last page, although it is full
}

// TestQuotaOfLargeSchedules counts schedules over several pages.
func TestQuotaOfLargeSchedules(t *testing.T) {
	h := hosttest.New(t)
	ns := tenant(t, h, "a", wasmgen.New(0).I32(0))
	do(t, h.SetQuota(ctx, "a", host.Quota{MaxSchedules: 20}))
	var err error
	n := 0
	for ; err == nil && n < 30; n++ {
		_, err = ns.Schedules().Create(ctx, fmt.Sprint("s", n), host.ScheduleSpec{Workflow: "w", When: "0 0 1 1 *",
			Input: []byte(`"` + strings.Repeat("x", 60<<10) + `"`)})
	}
	is(t, err, host.ErrBusy)
	want(t, n, 21)
}

// TestLargeOutputAndLogs reads several MiB of output and log in portions, from the beginning and from the end.
func TestLargeOutputAndLogs(t *testing.T) {
	const n = 40
	m := wasmgen.New(0)
	m.Pages = 2
	for i := range n {
		m.Text("often").I32(0).I32(60_000).Call(abi.FnEmit).Drop().Text("rare").Text("1").Call(abi.FnEmit).Drop()
		m.I32(1).I32(0).I32(60_000).Call(abi.FnLog).Drop().Text(fmt.Sprint("nap ", i)).I64(1000).Call(abi.FnSleep).Drop()
	}
	h := handmade(t, m.I32(0))
	for range n {
		h.Settle()
		h.Advance(time.Second)
	}
	h.Finish("r")
	for _, c := range []struct {
		topic       string
		from        int64
		first, many int
	}{{"", 0, 0, 2 * n}, {"rare", 0, 1, n}, {"often", -30, 20, 30}, {"rare", -40, 1, 40}, {"rare", -41, 0, 40}, {"", -3, 2*n - 3, 3}} {
		var got []uint64
		for chunk, err := range h.Output(ctx, "r", c.topic, c.from) {
			do(t, err)
			got = append(got, chunk.Index)
		}
		if len(got) != c.many || c.many < n && got[0] != uint64(c.first) || !slices.IsSorted(got) {
			t.Errorf("%q from %d: %d", c.topic, c.from, got)
		}
	}
	lines, err := h.Logs(ctx, "r", 3, 1000)
	do(t, err)
	if len(lines) != n-3 || lines[0].Index != 3 || lines[len(lines)-1].Index != n-1 {
		t.Errorf("%d lines", len(lines))
	}
	lines, err = h.Logs(ctx, "r", 3, 30)
	do(t, err)
	want(t, len(lines), 30)
}
