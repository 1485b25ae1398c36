package shard

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wfhost/wfhost/store"
)

func queuedKey(ns store.NamespaceID, workflow string, i int) (backlogGroup, store.RunKey) {
	return backlogGroup{ns, workflow}, store.RunKey{Namespace: ns, ID: fmt.Sprint(workflow, i)}
}

// A namespace or workflow that starts many runs gets only a part of the slots for asking; others ask at once, or take
// turns with it.
func TestParts(t *testing.T) {
	s := startBacklog{Limit: 16, Most: 1 << 20}
	asked := func(ns store.NamespaceID, workflow string, from, n int) (marks []*backlogState) {
		for i := from; i < from+n; i++ {
			m := &backlogState{}

			if of, k := queuedKey(ns, workflow, i); s.Ask(of, k, m, 10) {
				marks = append(marks, m)
			}
		}
		return marks
	}
	flood := asked(1, "flood", 0, 100)
	if len(flood) != 4 || s.Len() != 100 || s.Asking() != 4 {
		t.Fatalf("%d of one workflow have asked, %d of %d wait", len(flood), s.Asking(), s.Len())
	}
	other := asked(1, "other", 0, 100)
	if more := asked(1, "more", 0, 100); len(other) != 4 || len(more) != 0 {
		t.Fatalf("%d and %d more of the namespace have asked, which has half", len(other), len(more))
	}
	honest := asked(2, "honest", 0, 3)
	if len(honest) != 3 {
		t.Fatalf("%d of another namespace have asked", len(honest))
	}
	if _, k, ok := s.Next(); ok {
		t.Errorf("%v is next, of a namespace that has its part", k)
	}
	for _, m := range slices.Concat(flood, other) {
		s.Leave(m)
	}
	asked(2, "honest", 3, 20)
	s.Leave(honest[0])
	var order []string
	for of, k, ok := s.Next(); ok; of, k, ok = s.Next() {
		order = append(order, k.ID)
		s.Invite(of, &backlogState{})
	}
	// The honest workflow has three slots, and may have four. The workflows of the flood's namespace take turns.
	if got := strings.Join(order, " "); got != "flood4 honest4 other4 more0 flood5 other5 more1 flood6 other6" {
		t.Error(got)
	}
}

// The next run is found at once, however many groups have used up their part.
func TestPartsOfBytes(t *testing.T) {
	s := startBacklog{Limit: 100, Most: 1000}
	large := &backlogState{}
	of, k := queuedKey(1, "large", 0)
	if !s.Ask(of, k, large, 5000) { // any may be the first
		t.Fatal("a large one does not fit when there is nothing else")
	}
	if of, k := queuedKey(2, "small", 0); s.Ask(of, k, &backlogState{}, 1) {
		t.Error("one asks though there are too many bytes")
	}
	if _, _, ok := s.Next(); ok {
		t.Error("one is invited though there are too many bytes")
	}
	s.Leave(large)
	if of, k, ok := s.Next(); !ok || of.Workflow != "small" || k.ID != "small0" || s.Waits(k) || s.Len() != 0 {
		t.Error("it is not next when there is room", of, k, ok)
	}
}

// The place of an invited run is reserved while it is read, whoever else asks in the meantime.
func TestInvited(t *testing.T) {
	s := startBacklog{Limit: 8, Most: 1 << 20}
	ask := func(ns store.NamespaceID, workflow string, i int) (*backlogState, bool) {
		m := &backlogState{}
		of, k := queuedKey(ns, workflow, i)
		return m, s.Ask(of, k, m, 10)
	}
	var first *backlogState
	for i := range 2 {
		for _, of := range []backlogGroup{{1, "a"}, {1, "b"}, {3, "c"}, {3, "d"}} {
			if m, ok := ask(of.Namespace, of.Workflow, i); !ok {
				t.Fatal("there is room")
			} else if first == nil {
				first = m
			}
		}
	}
	if _, ok := ask(2, "honest", 0); ok {
		t.Fatal("there is no room")
	}
	s.Leave(first)
	of, k, ok := s.Next()
	if !ok || of.Workflow != "honest" {
		t.Fatal(of, k, ok)
	}
	invited := &backlogState{}
	s.Invite(of, invited)
	if _, ok := ask(1, "a", 2); ok {
		t.Error("another one has the place of one that is read")
	}
	s.Arrived(invited)
	if !s.Ask(of, k, invited, 10) {
		t.Error("one that was invited has no place")
	}
}

// Every run that waits as a key becomes next exactly once; an empty backlog holds nothing.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := startBacklog{Limit: rapid.IntRange(1, 12).Draw(t, "limit"), Most: rapid.Int64Range(1, 400).Draw(t, "most")}
		type run struct {
			of      backlogGroup
			key     store.RunKey
			state   backlogState
			waiting bool
		}
		var all []*run
		next := func() bool {
			of, k, ok := s.Next()
			if !ok {
				return false
			}
			i := slices.IndexFunc(all, func(r *run) bool { return r.key == k })
			r := all[i]
			if !r.waiting || r.of != of || r.state.asked {
				t.Fatalf("%v is next, and did not wait", k)
			}
			r.waiting = false
			s.Invite(of, &r.state)
			if rapid.Bool().Draw(t, "arrives") {
				s.Arrived(&r.state)
				r.waiting = !s.Ask(r.of, r.key, &r.state, 50)
			}
			return true
		}
		leave := func(r *run) {
			s.Arrived(&r.state)
			s.Leave(&r.state)
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				asked, waiting := 0, 0
				for _, r := range all {
					if r.state.asked {
						asked++
					}
					if r.waiting != s.Waits(r.key) {
						t.Fatalf("%v waits: %v", r.key, r.waiting)
					}
					if r.waiting {
						waiting++
					}
				}
				if asked > s.Limit || s.Asking() != asked || s.Len() != asked+waiting {
					t.Fatalf("%d have asked and %d wait; the set says %d of %d", asked, waiting, s.Asking(), s.Len())
				}
			},
			"ask": func(t *rapid.T) {
				r := &run{of: backlogGroup{store.NamespaceID(rapid.IntRange(0, 2).Draw(t, "ns")),
					rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "wf")}}
				r.key = store.RunKey{Namespace: r.of.Namespace, ID: fmt.Sprint(len(all))}
				all = append(all, r)
				r.waiting = !s.Ask(r.of, r.key, &r.state, rapid.Int64Range(0, 100).Draw(t, "bytes"))
			},
			"next": func(*rapid.T) { next() },
			"leave": func(t *rapid.T) {
				if len(all) > 0 {
					leave(rapid.SampledFrom(all).Draw(t, "run"))
				}
			},
		})
		for range 1000 {
			for _, r := range all {
				leave(r)
			}
			if !next() {
				break
			}
		}
		for _, r := range all {
			leave(r)
		}
		if s.Len() != 0 || s.all != (use{}) || len(s.of)+len(s.workflows)+len(s.namespaces)+s.turns.Len() != 0 {
			t.Fatalf("%d wait, %+v, %d, %d, %d, %d", s.Len(), s.all, len(s.of), len(s.workflows), len(s.namespaces), s.turns.Len())
		}
	})
}

// TestTurnsOfAWorkflowThatDrains has a workflow, of the same namespace or another one, whose only waiting run is
// invited and followed by another: it gets no more turns than the others.
func TestTurnsOfAWorkflowThatDrains(t *testing.T) {
	for _, other := range []store.NamespaceID{1, 2} {
		s := startBacklog{Limit: 100, Most: 1 << 20}
		push := func(ns store.NamespaceID, workflow string, i int) {
			of, k := queuedKey(ns, workflow, i)
			s.push(of, k)
		}
		push(1, "a", 0)
		for i := range 20 {
			push(other, "b", i)
		}
		var order string
		for n := range 10 {
			_, k, ok := s.Next()
			if !ok {
				t.Fatal("none is invited")
			}
			order += k.ID[:1]
			if k.ID[0] == 'a' {
				push(1, "a", n+1)
			}
		}
		if strings.Count(order, "b") < 5 {
			t.Errorf("namespace %d: %s", other, order)
		}
	}
}

// TestEmptyBacklogTakesNoMemory lets many runs wait as keys and start: nothing of them stays in memory.
func TestEmptyBacklogTakesNoMemory(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	s := startBacklog{Limit: 16, Most: 1 << 20}
	before := heap()
	var asked []*backlogState
	for i := range 20_000 {
		m := &backlogState{}
		if of, k := queuedKey(0, "w", i); s.Ask(of, k, m, 0) {
			asked = append(asked, m)
		}
	}
	for _, m := range asked {
		s.Leave(m)
	}
	for n := s.Len(); n > 0; n-- {
		if _, _, ok := s.Next(); !ok {
			t.Fatalf("none of %d is next", n)
		}
	}
	if left := heap() - before; left > 64<<10 {
		t.Errorf("%d bytes are in memory after all have started", left)
	}
	runtime.KeepAlive(&s)
}
