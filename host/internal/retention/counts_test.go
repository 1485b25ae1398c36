package retention_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wfhost/wfhost/host/internal/retention"
	"github.com/wfhost/wfhost/store"
)

// TestKeepsByStatus keeps the newest runs of each status, so that many completed runs do not displace failed ones.
func TestKeepsByStatus(t *testing.T) {
	w := newWorld(t, store.Retention{KeepTerminated: 1})
	for i := range int64(4) {
		w.put(fmt.Sprint("f", i), "a", store.Failed, 90-i)
		w.put(fmt.Sprint("x", i), "a", store.Cancelled, 80-i)
		w.put(fmt.Sprint("t", i), "b", store.Terminated, 80-i)
	}
	for i := range int64(9) {
		w.put(fmt.Sprint("c", i), "a", store.Completed, 9-i)
	}
	w.ok(w.s.SetRetention(ctx, store.Retention{Workflow: "a", KeepCompleted: 2, KeepFailed: 3}))
	all := "c0 c1 c2 c3 c4 c5 c6 c7 c8 f0 f1 f2 f3 t0 t1 t2 t3 x0 x1 x2 x3"
	if r := w.left(all, true); r.Deleted != 11 {
		t.Errorf("%+v", r)
	}
	if r := w.sweep("c7 c8 f1 f2 f3 t3 x0 x1 x2 x3"); r.Deleted != 11 {
		t.Errorf("%+v", r)
	}
	w.ok(w.s.SetRetention(ctx, store.Retention{Workflow: "a", KeepFailed: 2, KeepCancelled: 3, Keep: 5}))
	if r := w.left("c7 c8 f1 f2 f3 t3 x0 x1 x2 x3", true); r.Deleted != 4 {
		t.Errorf("%+v", r)
	}
	w.sweep("c7 c8 t3 x1 x2 x3") // f1 and x0 exceed their status's limit; f2 and f3 are the oldest of seven
}

// model computes which runs of a list stay: not too old, then the newest of each status, then the newest of all.
func model(runs []store.RunState, x *store.Retention, now int64, held map[string]bool) (left []string) {
	slices.SortFunc(runs, func(a, b store.RunState) int {
		return -cmp.Or(cmp.Compare(a.CreatedUnixMs, b.CreatedUnixMs), cmp.Compare(a.Run.ID, b.Run.ID))
	})
	keep := func(n int64, of func(store.Status) bool) {
		var rest []store.RunState
		for _, st := range runs {
			n--
			if !of(st.Status) {
				n++
			} else if n < 0 && !held[st.Run.ID] {
				continue
			}
			rest = append(rest, st)
		}
		runs = rest
	}
	runs = slices.DeleteFunc(runs, func(st store.RunState) bool {
		age := x.AgeMs(st.Status)
		return age > 0 && st.EndedUnixMs <= now-age && !held[st.Run.ID]
	})
	for _, s := range []store.Status{store.Completed, store.Failed, store.Cancelled, store.Terminated} {
		if n := x.KeepOf(s); n > 0 {
			keep(n, func(is store.Status) bool { return is == s })
		}
	}
	if x.Keep > 0 {
		keep(x.Keep, store.Status.Terminal)
	}
	for _, st := range runs {
		left = append(left, st.Run.ID)
	}
	return left
}

// TestSweepsFollowAModel lets runs begin, end in another order, and be held by a parent, between sweeps of one
// sweeper, each of which continues where the previous one ended. The remaining runs are right, and a dry run
// predicted them.
func TestSweepsFollowAModel(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		few := func() int64 { return max(rnd.Int64N(9)-4, 0) }
		x := store.Retention{CompletedMs: few() * day, FailedMs: few() * day, Keep: 2 * few(), KeepCompleted: few(), KeepFailed: few(),
			KeepCancelled: few(), KeepTerminated: few()}
		w := newWorld(t, x)
		if seed%2 == 0 {
			w.parent(store.Waiting)
		}
		runs, held, began := map[string]store.RunState{}, map[string]bool{"parent.2": seed%2 == 0}, 0
		for round := range 12 {
			w.now += rnd.Int64N(day) + 120_000
			for range rnd.IntN(8) {
				st := store.RunState{Run: store.RunKey{ID: fmt.Sprint("r", began)}, Workflow: "w", Version: 1, Status: store.Sleeping,
					WakeUnixMs: store.NoWake, CreatedUnixMs: w.now - rnd.Int64N(3)}
				began++
				if round == 1 && seed%2 == 0 && runs["parent.2"].Run.ID == "" {
					st.Run.ID, st.Parent = "parent.2", "parent"
				}
				w.commit(store.RunCommit{State: st, Create: true})
				runs[st.Run.ID] = st
			}
			for _, id := range sortedKeys(runs) {
				if st := runs[id]; !st.Status.Terminal() && rnd.IntN(3) == 0 {
					st.Status = store.Status(int(store.Completed) + rnd.IntN(4))
					st.EndedUnixMs = w.now - rnd.Int64N(90_000) - 1
					w.commit(store.RunCommit{State: st})
					runs[id] = st
				}
			}
			var live []string
			var over []store.RunState
			for id, st := range runs {
				if st.Status.Terminal() {
					over = append(over, st)
				} else {
					live = append(live, id)
				}
			}
			want := append(live, model(over, &x, w.now, held)...)
			dry, err := w.sweeper.Sweep(ctx, w.now, nil, true)
			w.ok(err)
			did, err := w.sweeper.Sweep(ctx, w.now, nil, false)
			w.ok(err)
			var got []string
			for st, err := range store.Runs(ctx, w.s, store.Query{Workflow: "w"}, 0) {
				w.ok(err)
				got = append(got, st.Run.ID)
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) || dry.Deleted != did.Deleted || did.Deleted != len(runs)-len(want) ||
				!slices.Equal(sortedIDs(dry.First), sortedIDs(did.First)) {
				t.Fatalf("seed %d, sweep %d, %+v: left are %q, want %q; %d deleted, said were %d", seed, round, x, got, want, did.Deleted,
					dry.Deleted)
			}
			for id := range runs {
				if !slices.Contains(want, id) {
					delete(runs, id)
				}
			}
		}
	}
}

func sortedIDs(list []store.RunState) (ids []string) {
	for _, st := range list {
		ids = append(ids, st.Run.ID)
	}
	slices.Sort(ids)
	return ids
}

func sortedKeys(m map[string]store.RunState) (list []string) {
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// TestCountsGoOn: a sweep does not pass again through runs that earlier sweeps passed, even if runs that began long
// ago have ended since. Runs that were held back are checked again once a day.
func TestCountsGoOn(t *testing.T) {
	w := newWorld(t, store.Retention{KeepCompleted: 2})
	w.put("old", "w", store.Sleeping, 90)
	w.put("older", "w", store.Sleeping, 91)
	for i := range 600 {
		w.put(fmt.Sprintf("f%03d", i), "w", store.Failed, 50) // kept forever
	}
	for i := range int64(5) {
		w.put(fmt.Sprint("c", i), "w", store.Completed, 9-i)
	}
	sweep := func(deleted int) int {
		t.Helper()
		w.now += 3600 * 1000
		w.s.passed = 0
		r, err := w.sweeper.Sweep(ctx, w.now, nil, false)
		w.ok(err)
		if r.Deleted != deleted {
			t.Fatalf("%+v, want %d", r, deleted)
		}
		return w.s.passed
	}
	if n := sweep(3); n < 600 {
		t.Fatalf("%d were passed", n)
	}
	if n := sweep(0); n != 0 {
		t.Errorf("%d were passed again", n)
	}
	end := func(id string) {
		st, err := w.s.State(ctx, store.RunKey{ID: id})
		w.ok(err)
		st.Status, st.EndedUnixMs = store.Completed, w.now
		w.commit(store.RunCommit{State: st})
	}
	end("old")
	if n := sweep(1); n != 0 {
		t.Errorf("%d were passed again for a late one", n)
	}
	w.put("c7", "w", store.Completed, 0)
	end("older")
	if n := sweep(2); n > 5 {
		t.Errorf("%d were passed again for a late one and a new one", n)
	}
	if _, err := w.s.State(ctx, store.RunKey{ID: "c3"}); err != nil {
		t.Error(err)
	}
}

// TestLateRuns: a run that began long ago and ends now is the oldest one, and no newer run is deleted instead. If
// several are late, the one that began first is deleted first. A run that must stay counts once, however often it is
// read.
func TestLateRuns(t *testing.T) {
	w := newWorld(t, store.Retention{KeepCompleted: 2})
	w.parent(store.Waiting)
	w.put("parent.2", "w", store.Sleeping, 92, child)
	for i := range int64(3) {
		w.put(fmt.Sprint("l", i), "w", store.Sleeping, 90-i)
	}
	for i := range int64(4) {
		w.put(fmt.Sprint("c", i), "w", store.Completed, 9-i)
	}
	w.sweep("c2 c3 l0 l1 l2 parent parent.2")
	end := func(id string) {
		st, err := w.s.Store.State(ctx, store.RunKey{ID: id})
		w.ok(err)
		st.Status, st.EndedUnixMs = store.Completed, w.now-10
		w.commit(store.RunCommit{State: st})
	}
	end("l2")
	w.sweep("c2 c3 l0 l1 parent parent.2")
	end("parent.2")
	for i := range 3 {
		if r := w.sweep("c2 c3 l0 l1 parent parent.2"); r.Held != max(1-i, 0) {
			t.Errorf("%+v", r)
		}
	}
	w.now += 3600 * 1000
	for _, id := range []string{"l1", "l0"} {
		end(id)
	}
	st, err := w.s.Store.State(ctx, store.RunKey{ID: "c3"})
	w.ok(err)
	st.Deleted = true
	w.commit(store.RunCommit{State: st, Delete: true})
	w.sweep("c2 l1 parent parent.2")
	w.put("c9", "w", store.Completed, 0)
	w.sweep("c2 c9 parent parent.2")
	w.parent(store.Completed)
	w.now += day
	w.sweep("c2 c9 parent")
}

// TestCountsAfterAChange: runs that ended while no number was set count when one is set again.
func TestCountsAfterAChange(t *testing.T) {
	w := newWorld(t, store.Retention{})
	set := func(r store.Retention) {
		t.Helper()
		r.Workflow = "w"
		w.ok(w.s.SetRetention(ctx, r))
		w.now += 3600 * 1000
	}
	w.put("late", "w", store.Sleeping, 9)
	for i := range int64(3) {
		w.put(fmt.Sprint("c", i), "w", store.Completed, 3-i)
	}
	set(store.Retention{KeepCompleted: 1})
	w.sweep("c2 late")
	set(store.Retention{})
	w.put("late", "w", store.Completed, 9)
	w.sweep("c2 late")
	w.now += 3600 * 1000
	w.sweep("c2 late")
	set(store.Retention{KeepCompleted: 1})
	w.sweep("c2")
}

// TestCountsInPortions deletes more than a portion, and the rest after it was interrupted.
func TestCountsInPortions(t *testing.T) {
	w := newWorld(t, store.Retention{KeepCompleted: 3, KeepFailed: 1})
	for i := range int64(1000) {
		w.put(fmt.Sprintf("c%03d", i), "w", store.Completed, 2000-i)
	}
	w.put("f", "w", store.Failed, 3000)
	cut, cancel := context.WithCancel(ctx)
	var deleted atomic.Int64
	w.before = func(store.RunKey) {
		if deleted.Add(1) == 300 {
			cancel()
		}
	}
	if _, err := w.sweeper.Sweep(cut, w.now, nil, false); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	w.before = nil
	r, err := w.sweeper.Sweep(ctx, w.now, nil, false)
	w.ok(err)
	if r.Deleted == 0 || r.Deleted > 997-300 || len(r.First) != r.Deleted || !strings.HasPrefix(r.First[0].Run.ID, "c") {
		t.Errorf("%d", r.Deleted)
	}
	w.sweep("c997 c998 c999 f")
}

// TestCountsAfterACutSweep: a sweep that is interrupted before it has deleted late runs leaves them to the next one.
// No run that must stay is deleted instead.
func TestCountsAfterACutSweep(t *testing.T) {
	w := newWorld(t, store.Retention{KeepCompleted: 2})
	for i := range int64(2) {
		w.put(fmt.Sprint("l", i), "w", store.Sleeping, 90-i)
	}
	for i := range int64(4) {
		w.put(fmt.Sprint("c", i), "w", store.Completed, 9-i)
	}
	w.sweep("c2 c3 l0 l1")
	w.now += 3600 * 1000
	for _, id := range []string{"l0", "l1"} {
		st, err := w.s.Store.State(ctx, store.RunKey{ID: id})
		w.ok(err)
		st.Status, st.EndedUnixMs = store.Completed, w.now-600_000
		w.commit(store.RunCommit{State: st})
		w.fails[id] = context.Canceled
	}
	cut, cancel := context.WithCancel(ctx)
	w.before = func(store.RunKey) { cancel() }
	if _, err := w.sweeper.Sweep(cut, w.now, nil, false); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	w.before = nil
	clear(w.fails)
	w.sweep("c2 c3")
}

// TestCountsOfTwoHosts: each host deletes runs of its own partitions, and runs that the other host has deleted no
// longer count.
func TestCountsOfTwoHosts(t *testing.T) {
	w := newWorld(t, store.Retention{})
	of := func(owned []store.PartitionID) *retention.Sweeper {
		return retention.New(retention.Config{Store: w.s, Owned: func() []store.PartitionID { return owned }, Delete: w.delete,
			Default: store.Retention{KeepCompleted: 10, IDsMs: 1000 * day}})
	}
	hosts := []*retention.Sweeper{of(w.owned[:store.Partitions/2]), of(w.owned[store.Partitions/2:])}
	for round := range 5 {
		w.now += 3600 * 1000
		for i := range 100 {
			w.put(fmt.Sprintf("r%d.%03d", round, i), "w", store.Completed, 0)
		}
		for _, h := range hosts {
			_, err := h.Sweep(ctx, w.now, nil, false)
			w.ok(err)
		}
		left := 0
		for st, err := range store.Runs(ctx, w.s, store.Query{}, 0) {
			w.ok(err)
			left++
			if st.Run.ID < fmt.Sprintf("r%d.090", round) {
				t.Errorf("sweep %d: %s is left", round, st.Run.ID)
			}
		}
		if left != 10 {
			t.Fatalf("sweep %d: %d runs are left", round, left)
		}
	}
}

// TestMoreLateRunsThanAreHeld has more runs end late than are held in memory: each is deleted once.
func TestMoreLateRunsThanAreHeld(t *testing.T) {
	const late = 10_050
	w := newWorld(t, store.Retention{KeepCompleted: 2})
	all := make([]store.RunState, late)
	for i := range all {
		all[i] = w.put(fmt.Sprint("l", i), "w", store.Sleeping, 90)
	}
	for i := range int64(4) {
		w.put(fmt.Sprint("c", i), "w", store.Completed, 9-i)
	}
	_, err := w.sweeper.Sweep(ctx, w.now, nil, false)
	w.ok(err)
	w.now += 3600 * 1000
	for _, st := range all {
		st.Status, st.EndedUnixMs = store.Completed, w.now-10
		w.commit(store.RunCommit{State: st})
	}
	if r := w.sweep("c2 c3"); r.Deleted != late {
		t.Errorf("%d were deleted", r.Deleted)
	}
}
