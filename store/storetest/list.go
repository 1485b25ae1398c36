package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// listed returns the ids of a page, and the query for the next one.
func (e *env) listed(q store.Query) (ids []string, next *store.Query) {
	e.t.Helper()
	page, err := e.s.List(context.Background(), q)
	e.ok(err)
	for i := range page.Runs {
		ids = append(ids, page.Runs[i].Run.ID)
	}
	q.After = page.Next
	if q.After == nil {
		return ids, nil
	}
	return ids, &q
}

// all returns the ids of all pages, separated by spaces.
func (e *env) all(q store.Query) string {
	e.t.Helper()
	var ids []string
	for next := &q; next != nil; {
		var page []string
		page, next = e.listed(*next)
		ids = append(ids, page...)
	}
	return strings.Join(ids, " ")
}

func (e *env) same(what, got, want string) {
	e.t.Helper()
	if got != want {
		e.t.Fatalf("%s: %s, want %s", what, got, want)
	}
}

// testList lists runs by each filter, in both orders.
func testList(_ *testing.T, e *env) {
	statuses := []store.Status{store.Queued, store.Running, store.Sleeping, store.Waiting, store.Paused, store.Stuck,
		store.Completed, store.Failed, store.Cancelled, store.Terminated}
	for i := range 20 { // ids fall while times rise
		st := state(fmt.Sprintf("r%02d", 99-i))
		st.CreatedUnixMs, st.Status = int64(100+i/2), statuses[i%10] // two in each millisecond
		st.Workflow = "w"
		if i%5 == 0 {
			st.Workflow = "other"
		}
		if st.Status.Terminal() {
			st.EndedUnixMs = 500
		}
		if i%3 == 0 {
			st.Attributes = []store.Attribute{{Key: "a", Value: "1"}, {Key: "b", Value: fmt.Sprint(i % 2)}}
		}
		e.ok(e.commit(st, true, 0, 1))
	}
	ms := func(at int64) *int64 { return &at }
	for range 2 {
		for _, limit := range []int{0, 1, 3, 7} {
			for _, c := range []struct {
				what string
				q    store.Query
				want string
			}{
				{"all", store.Query{}, "r81 r80 r83 r82 r85 r84 r87 r86 r89 r88 r91 r90 r93 r92 r95 r94 r97 r96 r99 r98"},
				{"oldest", store.Query{Oldest: true},
					"r98 r99 r96 r97 r94 r95 r92 r93 r90 r91 r88 r89 r86 r87 r84 r85 r82 r83 r80 r81"},
				{"sleeping", store.Query{Statuses: []store.Status{store.Sleeping}}, "r87 r97"},
				{"several", store.Query{Statuses: []store.Status{store.Failed, store.Queued, store.Running, store.Failed}},
					"r82 r89 r88 r92 r99 r98"},
				{"workflow", store.Query{Workflow: "other"}, "r84 r89 r94 r99"},
				{"both", store.Query{Workflow: "other", Statuses: []store.Status{store.Queued}, Oldest: true}, "r99 r89"},
				{"no workflow", store.Query{Workflow: "othe"}, ""},
				{"attribute", store.Query{Attributes: []store.Attribute{{Key: "a", Value: "1"}}}, "r81 r84 r87 r90 r93 r96 r99"},
				{"attributes", store.Query{Attributes: []store.Attribute{{Key: "a", Value: "1"}, {Key: "b", Value: "0"}}},
					"r81 r87 r93 r99"},
				{"range", store.Query{Ranges: []store.Range{{Key: "b", Type: store.TypeInt, From: -1, To: 0}},
					Attributes: []store.Attribute{{Key: "a", Value: "1"}}}, "r81 r87 r93 r99"},
				{"no attribute", store.Query{Attributes: []store.Attribute{{Key: "a", Value: ""}}}, ""},
				{"from", store.Query{CreatedFrom: ms(108)}, "r81 r80 r83 r82"},
				{"before", store.Query{CreatedBefore: ms(101)}, "r99 r98"},
				{"between", store.Query{CreatedFrom: ms(101), CreatedBefore: ms(103), Oldest: true}, "r96 r97 r94 r95"},
				{"nothing between", store.Query{CreatedFrom: ms(103), CreatedBefore: ms(102)}, ""},
				{"namespace", store.Query{Namespace: 7}, ""},
			} {
				c.q.Limit = limit
				e.same(fmt.Sprintf("%s by %d", c.what, limit), e.all(c.q), c.want)
			}
		}
		e.reopen()
	}
	for range store.Runs(context.Background(), e.s, store.Query{}, 0) {
		break // giving up early is legal
	}
	n := 0
	for range store.Runs(context.Background(), e.s, store.Query{Limit: 2}, 5) {
		n++
	}
	if n != 5 {
		e.t.Fatalf("%d runs, asked for 5", n)
	}
}

// testPages changes runs between pages: a run that matches throughout is listed once.
func testPages(t *testing.T, e *env) {
	for i := range 30 {
		st := state(fmt.Sprintf("r%02d", i))
		st.CreatedUnixMs, st.Status = int64(i), store.Sleeping
		e.ok(e.commit(st, true, 0, 1))
	}
	for round, q := range []store.Query{{Limit: 4}, {Limit: 4, Workflow: "w"},
		{Limit: 4, Statuses: []store.Status{store.Sleeping, store.Waiting, store.Running}}} {
		seen := map[string]int{}
		for next, n := &q, 0; next != nil; n++ {
			var ids []string
			ids, next = e.listed(*next)
			for _, id := range ids {
				seen[id]++
			}
			for i := range 30 { // all move from list to list
				st := state(fmt.Sprintf("r%02d", i))
				st.CreatedUnixMs, st.Status = int64(i), []store.Status{store.Running, store.Waiting, store.Sleeping}[(i+n)%3]
				e.ok(e.commit(st, false, 1, 0))
			}
			st := state(fmt.Sprintf("new%d-%d", round, n)) // newer than what is listed
			st.CreatedUnixMs = int64(1000*round + 100 + n)
			e.ok(e.commit(st, true, 0, 1))
			if n > 100 {
				t.Fatal("the pages do not end")
			}
		}
		for i := range 30 {
			if id := fmt.Sprintf("r%02d", i); seen[id] != 1 {
				t.Fatalf("%s was listed %d times", id, seen[id])
			}
		}
	}
}

// lists names the lists that contain a run.
func (e *env) lists() string {
	e.t.Helper()
	var is []string
	for s := store.Queued; s <= store.Terminated; s++ {
		if e.all(store.Query{Statuses: []store.Status{s}}) != "" {
			is = append(is, s.String())
		}
	}
	for _, w := range []string{"w", "v"} {
		if e.all(store.Query{Workflow: w}) != "" {
			is = append(is, w)
		}
	}
	for _, v := range []string{"1", "2"} {
		if e.all(store.Query{Attributes: []store.Attribute{{Key: "a", Value: v}}}) != "" {
			is = append(is, "a="+v)
		}
	}
	return strings.Join(is, " ")
}

// testListChanges takes one run through all of its possible states: it is listed only in its current state.
func testListChanges(_ *testing.T, e *env) {
	ctx := context.Background()
	st := state("r")
	e.ok(e.commit(st, true, 0, 1))
	check := func(what, want string) {
		e.t.Helper()
		for range 2 {
			e.same(what, e.lists(), want)
			counts, err := e.s.Counts(ctx, 0)
			e.ok(err)
			var total store.Tally
			for i := range counts {
				total.Sum(&counts[i].Runs)
			}
			if want := int64(len(e.all(store.Query{}))); total.Total() != want || want == 1 && total[st.Status] != 1 {
				e.t.Fatalf("%s: counts %+v", what, counts)
			}
			e.reopen()
		}
	}
	check("start", "running w")
	for _, s := range []store.Status{store.Sleeping, store.Running, store.Queued, store.Sleeping, store.Running, store.Waiting,
		store.Running, store.Sleeping, store.Running, store.Paused, store.Queued, store.Waiting, store.Queued, store.Stuck,
		store.Running, store.Failed, store.Queued, store.Sleeping, store.Queued, store.Cancelled} {
		st.Status, st.EndedUnixMs = s, 0
		if s.Terminal() {
			st.EndedUnixMs = 9
		}
		e.ok(e.commit(st, false, 1, 0))
		check("change", s.String()+" w")
	}
	st.Status, st.EndedUnixMs = store.Running, 0
	st.Attributes = []store.Attribute{{Key: "a", Value: "1"}}
	e.ok(e.commit(st, false, 1, 0))
	check("attribute", "running w a=1")
	st.Attributes, st.Version = []store.Attribute{{Key: "a", Value: "2"}}, 9
	e.ok(e.commit(st, false, 1, 0))
	check("another version", "running w a=2")
	st.Status, st.Workflow, st.CreatedUnixMs, st.Attributes = store.Sleeping, "v", 5, nil
	p := e.partition(st.Run.Partition())
	st.Length = 1
	e.ok(p.Commit(ctx, []store.RunCommit{{Run: st.Run, Create: true, Replace: true, State: st, Append: entries(0, 1)}}))
	check("replaced", "sleeping v")
	st.Iteration, st.Attributes = 1, []store.Attribute{{Key: "a", Value: "1"}}
	e.ok(e.partition(st.Run.Partition()).Commit(ctx, []store.RunCommit{{Run: st.Run, State: st, Append: entries(0, 1),
		Before: &store.IterationEnd{Expect: 1, Append: entries(1, 1)}}}))
	check("continued as new", "sleeping v a=1")
	gone := st
	gone.Deleted = true
	e.ok(e.partition(st.Run.Partition()).Commit(ctx, []store.RunCommit{{Run: st.Run, Delete: true, State: gone}}))
	check("deleted, the id is kept", "")
	e.ok(e.partition(st.Run.Partition()).Commit(ctx, []store.RunCommit{{Run: st.Run, Create: true, Replace: true, State: st,
		Before: &store.IterationEnd{Append: entries(0, 1)}, Append: entries(0, 1)}}))
	check("the id is used again", "sleeping v a=1")
	e.ok(e.partition(st.Run.Partition()).Commit(ctx, []store.RunCommit{{Run: st.Run, Delete: true, State: st}}))
	check("deleted", "")
}

// testCounts counts runs by workflow, version and status, in two namespaces.
func testCounts(t *testing.T, e *env) {
	want := map[store.NamespaceID][]store.Count{}
	for i := range 60 {
		st := state(fmt.Sprint("r", i))
		st.Run.Namespace = store.NamespaceID(i % 2)
		st.Workflow, st.Version, st.Status = fmt.Sprint("w", i%3), uint32(i%4), store.Status(1+i%10)
		e.ok(e.commit(st, true, 0, 1))
		list := want[st.Run.Namespace]
		at := slices.IndexFunc(list, func(c store.Count) bool { return c.Workflow == st.Workflow && c.Version == st.Version })
		if at < 0 {
			at = len(list)
			list = append(list, store.Count{Workflow: st.Workflow, Version: st.Version})
		}
		list[at].Runs[st.Status]++
		want[st.Run.Namespace] = list
	}
	for range 2 {
		all, err := e.s.Tallies(context.Background())
		e.ok(err)
		for ns := range store.NamespaceID(3) {
			var sum store.Tally
			for _, c := range want[ns] {
				sum.Sum(&c.Runs)
			}
			if all[ns] != sum {
				t.Errorf("namespace %d has %v, want %v", ns, all[ns], sum)
			}
		}
		for ns := range store.NamespaceID(3) {
			slices.SortFunc(want[ns], store.CompareCounts)
			got, err := e.s.Counts(context.Background(), ns)
			e.ok(err)
			if !slices.Equal(got, want[ns]) {
				t.Fatalf("namespace %d:\n%+v, want\n%+v", ns, got, want[ns])
			}
			for _, c := range append(got, store.Count{Workflow: "none", Version: 1}, store.Count{Workflow: "w0", Version: 99}) {
				n, err := e.s.CountOf(context.Background(), ns, c.Workflow, c.Version)
				e.ok(err)
				if n != c.Runs {
					t.Errorf("namespace %d: %s@%d has %v, want %v", ns, c.Workflow, c.Version, n, c.Runs)
				}
			}
		}
		e.reopen()
	}
}

// testTimers lists deadlines in three namespaces, many of them at one instant.
func testTimers(t *testing.T, e *env) {
	ctx := context.Background()
	for ns := range store.NamespaceID(3) {
		for i := range 24 {
			st := state(fmt.Sprintf("r%02d", i))
			st.Run.Namespace, st.Status, st.WakeUnixMs = ns, store.Sleeping, int64(10+i/8*10)
			switch i {
			case 3:
				st.Status = store.Running // is due at once, which is not a timer
			case 5:
				st.Status = store.Waiting
			case 7:
				st.WakeUnixMs = store.NoWake
			case 9:
				st.WakeUnixMs = -3
			}
			e.ok(e.commit(st, true, 0, 1))
		}
		for _, kind := range []store.WakeKind{store.WakeRetention, store.WakeLease, store.WakeLimit} {
			e.ok(e.s.Commit(ctx, []store.Group{{Partition: e.partition(3), Wakes: []store.WakeSet{
				{Kind: kind, Key: store.RunKey{Namespace: ns, ID: "x"}, OldUnixMs: store.NoWake, UnixMs: 20}}}}))
		}
	}
	want := "r09 r00 r01 r02 r04 r05 r06 r08 r10 r11 r12 r13 r14 r15 r16 r17 r18 r19 r20 r21 r22 r23"
	for range 2 {
		for ns := range store.NamespaceID(4) {
			for _, limit := range []int{0, 1, 2, 5} {
				for until, most := range map[int64]string{1000: want, 20: want[:14*len("r09 ")-1], 19: want[:7*len("r09 ")-1],
					9: "r09", -4: ""} {
					var ids []string
					q := store.TimerQuery{Namespace: ns, UntilMs: until, Limit: limit}
					for pages := 0; ; pages++ {
						page, err := e.s.Timers(ctx, q)
						e.ok(err)
						for i := range page.Runs {
							ids = append(ids, page.Runs[i].Run.ID)
						}
						q.After = page.Next
						if q.After == nil {
							break
						}
						if pages > 100 {
							t.Fatal("the pages do not end")
						}
					}
					if ns == 3 {
						most = ""
					}
					e.same(fmt.Sprintf("namespace %d until %d by %d", ns, until, limit), strings.Join(ids, " "), most)
				}
			}
		}
		e.reopen()
	}
}
