package storetest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/store"
)

func schedule(ns store.NamespaceID, id string, revision uint64, wake int64) store.Schedule {
	return store.Schedule{Key: store.RunKey{Namespace: ns, ID: id}, Revision: revision, WakeUnixMs: wake,
		Data: fmt.Appendf(nil, "%s at %d", id, revision)}
}

// setSchedule commits the change of a schedule.
func (e *env) setSchedule(x store.Schedule, remove bool) error {
	e.t.Helper()
	p := x.Key.Partition()
	return e.s.Commit(context.Background(), []store.Group{{Partition: e.partition(p),
		Schedules: []store.ScheduleSet{{Schedule: x, Delete: remove}}}})
}

// testSchedules creates, changes and deletes schedules. Each has one wake.
func testSchedules(t *testing.T, e *env) {
	ctx := context.Background()
	is := func(want ...store.Schedule) {
		t.Helper()
		for range 2 {
			for _, ns := range []store.NamespaceID{0, 3} {
				var of []store.Schedule
				for _, x := range want {
					if x.Key.Namespace == ns {
						of = append(of, x)
					}
				}
				got, err := e.s.Schedules(ctx, store.ScheduleQuery{Namespace: ns, Limit: 100})
				e.ok(err)
				if len(got)+len(of) > 0 && !reflect.DeepEqual(got, of) {
					t.Fatalf("namespace %d has %+v, want %+v", ns, got, of)
				}
			}
			for _, x := range want {
				one, err := e.s.Schedule(ctx, x.Key)
				e.ok(err)
				if !reflect.DeepEqual(one, x) {
					t.Fatalf("%+v, want %+v", one, x)
				}
				due, err := e.partition(x.Key.Partition()).Due(ctx, store.WakeKey{}, 1<<40, 100)
				e.ok(err)
				n := 0
				for _, w := range due {
					if w.Key.Kind == store.WakeSchedule && w.Key.Key == x.Key {
						n++
						if w.DueUnixMs != x.WakeUnixMs {
							t.Fatalf("%q wakes at %d, want %d", x.Key.ID, w.DueUnixMs, x.WakeUnixMs)
						}
					}
				}
				if has := x.WakeUnixMs != store.NoWake; n > 1 || (n == 1) != has {
					t.Fatalf("%q has %d wakes, and wakes at %d", x.Key.ID, n, x.WakeUnixMs)
				}
			}
			e.reopen()
		}
	}
	is()
	a, b, c := schedule(0, "a", 1, 5000), schedule(3, "a", 1, 7000), schedule(0, "b", 1, store.NoWake)
	for _, x := range []store.Schedule{c, a, b} {
		e.ok(e.setSchedule(x, false))
	}
	is(a, c, b)
	e.is(e.setSchedule(a, false), store.ErrExists)
	e.is(e.setSchedule(schedule(0, "none", 2, 1), false), store.ErrNotFound)
	e.is(e.setSchedule(schedule(0, "a", 3, 1), false), store.ErrConflict)
	e.is(e.setSchedule(schedule(0, "a", 0, 1), false), store.ErrConflict)
	large := schedule(0, "a", 2, 1)
	large.Data = make([]byte, store.MaxScheduleBytes+1)
	e.is(e.setSchedule(large, false), store.ErrTooLarge)
	is(a, c, b)
	a, c = schedule(0, "a", 2, 3000), schedule(0, "b", 2, 9000)
	e.ok(e.setSchedule(a, false))
	e.ok(e.setSchedule(c, false))
	is(a, c, b)
	e.ok(e.setSchedule(schedule(0, "a", 3, 8000), true))
	_, err := e.s.Schedule(ctx, a.Key)
	e.is(err, store.ErrNotFound)
	is(c, b)
	a = schedule(0, "a", 1, 100)
	e.ok(e.setSchedule(a, false))
	is(a, c, b)
	e.schedulePages()
}

// schedulePages lists the schedules of all partitions in pages, and checks that invalid groups are refused.
func (e *env) schedulePages() {
	e.t.Helper()
	ctx := context.Background()
	var want []string
	for i := range 100 {
		id := fmt.Sprint("s", 1000+i)
		want = append(want, id)
		e.ok(e.setSchedule(schedule(9, id, 1, int64(i)), false))
	}
	for _, limit := range []int{1, 7, 100, 200} {
		var got []string
		for q := (store.ScheduleQuery{Namespace: 9, Limit: limit}); ; {
			page, err := e.s.Schedules(ctx, q)
			e.ok(err)
			if len(page) == 0 {
				break
			}
			for _, x := range page {
				got = append(got, x.Key.ID)
			}
			q.After = got[len(got)-1]
		}
		if !slices.Equal(got, want) {
			e.t.Fatalf("in pages of %d: %v", limit, got)
		}
	}
	x := schedule(9, "s1000", 2, 1)
	p := x.Key.Partition()
	for _, g := range []store.Group{
		{Partition: e.partition((p + 1) % store.Partitions), Schedules: []store.ScheduleSet{{Schedule: x}}},
		{Partition: e.partition(p), Schedules: []store.ScheduleSet{{Schedule: x}, {Schedule: x}}},
		{Partition: e.partition(p), Wakes: []store.WakeSet{{Kind: store.WakeSchedule, Key: x.Key, OldUnixMs: store.NoWake, UnixMs: 1}}},
	} {
		e.refused(e.s.Commit(ctx, []store.Group{g}), 0, -1, nil)
	}
}
