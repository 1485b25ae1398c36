package pebblestore

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// work is the work of a list: entries visited, and seeks and steps of iterators.
type work struct{ looks, seeks, steps int }

func (s *Store) takeWork() work {
	s.walked.mu.Lock()
	defer s.walked.mu.Unlock()
	w := work{looks: s.walked.looks}
	for i := range s.walked.stats.ForwardSeekCount {
		w.seeks += s.walked.stats.ForwardSeekCount[i] + s.walked.stats.ReverseSeekCount[i]
		w.steps += s.walked.stats.ForwardStepCount[i] + s.walked.stats.ReverseStepCount[i]
	}
	s.walked.looks, s.walked.stats = 0, pebble.IteratorStats{}
	return w
}

// populated makes n runs. One in a thousand is of the workflow "rare", another one is failed, and a third one has an
// attribute.
func populated(t *testing.T, n int) *Store {
	s, err := Open("db", Options{FS: vfs.NewMem(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	groups := map[store.PartitionID]*store.Group{}
	flush := func() {
		var list []store.Group
		for _, g := range groups {
			list = append(list, *g)
		}
		if err := s.Commit(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for _, g := range groups {
			g.Runs = nil
		}
	}
	for i := range n {
		run := store.RunKey{ID: fmt.Sprintf("r%07d", i)}
		st := store.RunState{Run: run, Workflow: "often", Version: 1, Status: store.Sleeping, CreatedUnixMs: int64(i), WakeUnixMs: 1 << 30,
			Attributes: []store.Attribute{{Key: "all", Value: "x"}}}
		switch i % 1000 {
		case 300:
			st.Workflow = "rare"
		case 500:
			st.Status, st.WakeUnixMs = store.Failed, store.NoWake
		case 700:
			st.Attributes = append(st.Attributes, store.Attribute{Key: "a", Value: "1"})
		}
		p := run.Partition()
		if groups[p] == nil {
			part, err := s.Acquire(t.Context(), p, "a", 0)
			if err != nil {
				t.Fatal(err)
			}
			groups[p] = &store.Group{Partition: part}
		}
		groups[p].Runs = append(groups[p].Runs, store.RunCommit{Run: run, Create: true, State: st})
		if i%1000 == 999 || i == n-1 {
			flush()
		}
	}
	return s
}

// TestWorkOfAPage measures the work of pages with few and with many runs: it depends on the page, and is bounded.
func TestWorkOfAPage(t *testing.T) {
	type list struct {
		what string
		q    store.Query
		runs int // on the first page
		work work
	}
	ms := func(at int64) *int64 { return &at }
	const n = 20_000
	many := populated(t, n)
	all := 2 * store.Partitions // a seek and a step per partition, and as many by Pebble itself
	for _, l := range []list{
		{"all", store.Query{Limit: 10}, 10, work{12, all, 200}},
		{"deep", store.Query{Limit: 10, After: &store.Position{UnixMs: n / 2, ID: "x"}}, 10, work{12, all, 200}},
		{"until", store.Query{Limit: 10, CreatedBefore: ms(n / 2)}, 10, work{12, all, 200}},
		{"status", store.Query{Limit: 10, Statuses: []store.Status{store.Failed}}, 10, work{12, all, 200}},
		{"workflow", store.Query{Limit: 10, Workflow: "rare"}, 10, work{12, all, 200}},
		{"attribute", store.Query{Limit: 10, Attributes: []store.Attribute{{Key: "a", Value: "1"}}}, 10, work{12, all, 200}},
		{"few of many", store.Query{Limit: 10, Workflow: "rare", Statuses: []store.Status{store.Sleeping}}, 10, work{12, all, 200}},
		{"none", store.Query{Limit: 10, Statuses: []store.Status{store.Stuck}}, 0, work{}},
		{"none of both", store.Query{Limit: 10, Statuses: []store.Status{store.Failed}, Workflow: "rare"}, 0, work{}},
		{"no such attribute", store.Query{Limit: 10, Attributes: []store.Attribute{{Key: "a", Value: "2"}}}, 0, work{0, all, 200}},
		{"most", store.Query{Limit: 1000, Workflow: "often", Oldest: true}, 1000, work{1003, all, 4000}},
	} {
		many.takeWork()
		page, err := many.List(t.Context(), l.q)
		if err != nil || len(page.Runs) != l.runs {
			t.Errorf("%s: %d runs, want %d: %v", l.what, len(page.Runs), l.runs, err)
		}
		if got := many.takeWork(); got.looks > l.work.looks || got.seeks > l.work.seeks || got.steps > l.work.steps {
			t.Errorf("%s took %+v, at most %+v was expected", l.what, got, l.work)
		}
	}
	page, err := many.Timers(t.Context(), store.TimerQuery{UntilMs: 1 << 40, Limit: 10})
	if got := many.takeWork(); err != nil || len(page.Runs) != 10 || got.looks > 80 || got.seeks > all || got.steps > 200 {
		t.Errorf("timers: %d runs, %+v, %v", len(page.Runs), got, err)
	}
}

// TestPageIsCut searches for a rare property among runs that all have an attribute: pages are cut short, and together
// they find it.
func TestPageIsCut(t *testing.T) {
	const n = 5 * store.MaxLooks
	s := populated(t, n)
	q := store.Query{Attributes: []store.Attribute{{Key: "all", Value: "x"}, {Key: "a", Value: "1"}}}
	found, pages := 0, 0
	for ; ; pages++ {
		s.takeWork()
		page, err := s.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.takeWork(); got.looks > store.MaxLooks+1 {
			t.Fatalf("a page took %+v", got)
		}
		found += len(page.Runs)
		q.After = page.Next
		if q.After == nil {
			break
		}
	}
	if found != n/1000 || pages != n/store.MaxLooks-1 {
		t.Errorf("%d runs found, and %d pages before the last", found, pages)
	}
}

// TestKeysOfACommit counts the keys that a change of status adds to a commit: none if it is unchanged, one if a run
// goes to work or back to rest.
func TestKeysOfACommit(t *testing.T) {
	s := populated(t, 1)
	run := store.RunKey{ID: "r0000000"}
	part := s.parts[run.Partition()].owner
	st, err := s.State(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	keys := func(is store.Status) int {
		t.Helper()
		st.Status = is
		c := commit{s: s, b: s.db.NewBatch(), groups: []store.Group{{Partition: part,
			Runs: []store.RunCommit{{Run: run, Expect: st.Length, State: st, Append: []store.Entry{{Seq: st.Length, Kind: store.KindSleep}}}}}}}
		if err := c.build(); err != nil {
			t.Fatal(err)
		}
		n := int(c.b.Count())
		c.release()
		for i := range c.counts.list { // the batch is thrown away
			x := &c.counts.list[i]
			listed := s.tallies.parts[x.p].listed[x.of]
			for k := range x.listed.Tally {
				listed.Tally[k] -= x.listed.Tally[k]
			}
			listed.Bytes -= x.listed.Bytes
		}
		if err := part.Commit(t.Context(), c.groups[0].Runs); err != nil {
			t.Fatal(err)
		}
		st.Length++
		return n
	}
	same := keys(store.Sleeping) // a state, a piece of a journal
	for _, c := range []struct {
		to   store.Status
		more int
	}{{store.Running, 1}, {store.Running, 0}, {store.Sleeping, 1}, {store.Sleeping, 0}, {store.Queued, 1}, {store.Running, 1},
		{store.Waiting, 4}, {store.Running, 1}, {store.Waiting, 1}} {
		if got := keys(c.to) - same; got != c.more {
			t.Errorf("to %s: %d keys more than without a change, want %d", c.to, got, c.more)
		}
	}
	same = keys(store.Waiting)
	for _, c := range []struct {
		bytes int64
		more  int
	}{{1, 1}, {4096, 0}, {4097, 1}, {8192, 0}} { // the bytes of runs are counted in units
		st.StoredBytes = c.bytes
		if got := keys(store.Waiting) - same; got != c.more {
			t.Errorf("with %d bytes: %d keys more, want %d", c.bytes, got, c.more)
		}
	}
}

// TestTimersAmongOthers searches for the one timer of a namespace behind thousands of another namespace: pages are
// cut short, and the next page continues there.
func TestTimersAmongOthers(t *testing.T) {
	s := populated(t, 1)
	const others = 2 * store.MaxLooks
	groups := map[store.PartitionID]*store.Group{}
	for i := range others + 2 {
		run, wake := store.RunKey{Namespace: 1, ID: fmt.Sprint("other", i)}, int64(10+i)
		if i >= others { // one of namespace 0 and one of namespace 2, at an instant without other timers
			run, wake = store.RunKey{Namespace: store.NamespaceID(i-others) * 2, ID: "mine"}, 1<<20
		}
		p := run.Partition()
		if groups[p] == nil {
			part, err := s.Acquire(t.Context(), p, "a", 0)
			if err != nil {
				t.Fatal(err)
			}
			groups[p] = &store.Group{Partition: part}
		}
		groups[p].Runs = append(groups[p].Runs, store.RunCommit{Run: run, Create: true,
			State: store.RunState{Run: run, Status: store.Sleeping, WakeUnixMs: wake}})
	}
	for _, g := range groups {
		if err := s.Commit(t.Context(), []store.Group{*g}); err != nil {
			t.Fatal(err)
		}
	}
	for _, ns := range []store.NamespaceID{0, 2} {
		q := store.TimerQuery{Namespace: ns, UntilMs: 1 << 21}
		found, short := 0, 0
		for ; ; short++ {
			s.takeWork()
			page, err := s.Timers(t.Context(), q)
			if got := s.takeWork(); err != nil || got.looks > store.MaxLooks+store.Partitions || short > 10 {
				t.Fatalf("namespace %d, page %d took %+v: %v", ns, short, got, err)
			}
			found += len(page.Runs)
			q.After = page.Next
			if q.After == nil {
				break
			}
		}
		if found != 1 || short == 0 {
			t.Errorf("namespace %d: %d timers found, %d pages before the last", ns, found, short)
		}
	}
}
