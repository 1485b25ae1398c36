package host_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestLists finds runs by creation time and by their properties, and in pages; also after a crash.
func TestLists(t *testing.T) {
	l := newLab(t)
	for i := range 6 { // one per hour, with descending ids
		l.begin("until", 24*3600*1000, host.WithRunID(fmt.Sprint("r", 9-i)), host.WithAttributes(map[string]string{"n": fmt.Sprint(i % 2), "k": "v"}))
		l.Settle()
		l.Advance(time.Hour)
	}
	_, err := l.Cancel(ctx, "r8")
	do(t, err)
	l.Settle()
	at := func(hours float64) time.Time { return hosttest.Epoch.Add(time.Duration(hours * float64(time.Hour))) }
	for range 2 {
		for _, c := range []struct {
			q    host.Query
			want string
		}{
			{host.Query{}, "r4 r5 r6 r7 r8 r9"},
			{host.Query{Order: host.OldestFirst}, "r9 r8 r7 r6 r5 r4"},
			{host.Query{Limit: 2}, "r4 r5"},
			{host.Query{Status: host.Cancelled}, "r8"},
			{host.Query{Status: host.Cancelled, Statuses: []host.Status{host.Sleeping}}, "r4 r5 r6 r7 r8 r9"},
			{host.Query{Workflow: "until", Attributes: map[string]string{"k": "v", "n": "1"}}, "r4 r6 r8"},
			{host.Query{Workflow: "other"}, ""},
			{host.Query{CreatedFrom: at(3)}, "r4 r5 r6"},
			{host.Query{CreatedFrom: at(3).Add(time.Nanosecond)}, "r4 r5"},
			{host.Query{CreatedBefore: at(3)}, "r7 r8 r9"},
			{host.Query{CreatedBefore: at(3).Add(time.Nanosecond), CreatedFrom: at(2)}, "r6 r7"},
		} {
			var ids, paged []string
			for r, err := range l.Runs(ctx, c.q) {
				do(t, err)
				ids = append(ids, r.ID)
			}
			want(t, strings.Join(ids, " "), c.want)
			if c.q.Limit == 0 {
				c.q.Limit = 1
			}
			for page := (host.RunPage{Next: "first"}); page.Next != "" && len(paged) < len(ids); {
				page, err = l.RunPage(ctx, c.q)
				do(t, err)
				for _, r := range page.Runs {
					paged = append(paged, r.ID)
				}
				c.q.Cursor = page.Next
			}
			want(t, strings.Join(paged, " "), c.want)
		}
		counts, err := l.Counts(ctx, "until")
		do(t, err)
		if counts.Total() != 6 || counts[host.Sleeping] != 5 || counts[host.Cancelled] != 1 || len(counts) != 10 {
			t.Errorf("counts %v", counts)
		}
		counts, err = l.Counts(ctx, "nobody")
		do(t, err)
		want(t, counts.Total(), int64(0))
		page, err := l.TimerPage(ctx, host.TimerQuery{Limit: 2, Until: at(24 + 2)})
		do(t, err)
		if len(page.Timers) != 2 || page.Timers[0].RunID != "r9" || page.Timers[1].RunID != "r7" || !page.Timers[1].Due.Equal(at(26)) {
			t.Errorf("timers %+v", page)
		}
		now := l.Clock.Now()
		for within, n := range map[time.Duration]int{math.MaxInt64: 5, at(24).Sub(now): 1, at(26).Sub(now): 2, at(26).Sub(now) - time.Millisecond: 1} {
			page, err = l.TimerPage(ctx, host.TimerQuery{Limit: 10, WithinMs: within.Milliseconds()})
			if err != nil || len(page.Timers) != n {
				t.Errorf("within %v: %+v %v, want %d", within, page.Timers, err, n)
			}
		}
		all, err := collect(l.Timers(ctx, time.Time{}))
		do(t, err)
		want(t, len(all), 5)
		l.Crash()
	}
}

// TestListsRefuse asks for what no list has.
func TestListsRefuse(t *testing.T) {
	l := newLab(t)
	for text, q := range map[string]host.Query{
		`cursor must be milliseconds, a dot and a run id`:        {Cursor: "r1"},
		`limit must not be negative, got -1`:                     {Limit: -1},
		`limit of a page must be from 0 to 1000, got 1001`:       {Limit: 1001},
		`order must be NewestFirst or OldestFirst, got 2`:        {Order: 2},
		`as the page before returned it, got "99999999999999999`: {Cursor: "999999999999999999999.r"},
	} {
		if _, err := l.RunPage(ctx, q); !errors.Is(err, host.ErrInvalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %s", err, text)
		}
		if _, err := collect(l.Runs(ctx, q)); q.Limit <= 0 && !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	for _, q := range []host.TimerQuery{{Cursor: "x"}, {Limit: 1001}, {Limit: -1}, {WithinMs: -1}, {WithinMs: 1, Until: time.Unix(1, 0)}} {
		if _, err := l.TimerPage(ctx, q); !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if _, err := host.ParseOrder("id"); !errors.Is(err, host.ErrInvalid) || !strings.Contains(err.Error(), `newest or oldest, got "id"`) {
		t.Error(err)
	}
}

// TestOldStoreLists lists runs of an old release's store by indexes that the release did not have.
func TestOldStoreLists(t *testing.T) {
	o := newOld(t, 30*time.Minute)
	byStatus := map[host.Status]int64{}
	for r, err := range o.Runs(ctx, host.Query{}) {
		do(t, err)
		byStatus[r.Status]++
	}
	counts, err := o.Counts(ctx, "")
	do(t, err)
	for status, n := range counts {
		listed, err := collect(o.Runs(ctx, host.Query{Status: status}))
		do(t, err)
		if n != byStatus[status] || int64(len(listed)) != n {
			t.Errorf("%s: %d are counted, %d listed, there are %d", status, n, len(listed), byStatus[status])
		}
	}
	kinds, err := collect(o.Runs(ctx, host.Query{Attributes: map[string]string{"kind": "sleeper"}}))
	if err != nil || len(kinds) != 1 || kinds[0].ID != "asleep" {
		t.Errorf("%+v %v", kinds, err)
	}
	err = o.Workflows().DeleteVersion(ctx, kinds[0].Workflow, kinds[0].Version)
	if !errors.Is(err, host.ErrConflict) || !strings.Contains(err.Error(), "is in use by") {
		t.Errorf("a version that has runs was deleted: %v", err)
	}
}
