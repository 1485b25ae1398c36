package admission

import (
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// limits has the limits of namespaces, and how many guests of each are inside or resting.
type limits struct{ most, now map[uint32]int }

func (l limits) Full(ns uint32) bool  { return l.most[ns] > 0 && l.now[ns] >= l.most[ns] }
func (l limits) Add(ns uint32, n int) { l.now[ns] += n }

// TestLimitOfNamespace has many guests of a namespace with a limit of two wait: guests of other namespaces get in.
func TestLimitOfNamespace(t *testing.T) {
	l := limits{map[uint32]int{1: 2}, map[uint32]int{}}
	a := New(5, 1000, 1000).By(l)
	inside := map[uint32][]*Place{}
	ask := func(ns uint32) {
		p := a.NewPlace(1).Of(ns, "w", "")
		a.Ask(&Request{Place: p, Class: Starting, Begin: func() { inside[ns] = append(inside[ns], p) }})
	}
	for range 10 {
		ask(1)
	}
	for range 3 {
		ask(2)
	}
	ask(3) // the places are taken
	if len(inside[1]) != 2 || len(inside[2]) != 3 || len(inside[3]) != 0 {
		t.Fatalf("%d, %d and %d are inside", len(inside[1]), len(inside[2]), len(inside[3]))
	}
	if _, n, _ := a.Usage(); n != 9 { // those that are blocked, too
		t.Errorf("%d wait", n)
	}
	inside[2][0].Leave()
	if len(inside[1]) != 2 || len(inside[3]) != 1 {
		t.Fatalf("%d and %d are inside", len(inside[1]), len(inside[3]))
	}
	parked := inside[1][0]
	parked.Park(1)
	if len(inside[1]) != 3 || l.now[1] != 2 {
		t.Fatalf("%d have come in, %d are counted", len(inside[1]), l.now[1])
	}
	inside[3][0].Leave()
	if parked.TryEnter() {
		t.Error("three are inside, by number two may be")
	}
	l.most[1] = 0 // no limit any more: as many as there are places
	inside[1][1].Leave()
	if l.now[1] != 3 || a.free != 0 {
		t.Errorf("%d are inside, %d places are free", l.now[1], a.free)
	}
}

// TestLimitsOfNamespaces has guests come and go at random: no namespace exceeds its limit, and a place stays free
// only if no guest may take it.
func TestLimitsOfNamespaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limits{map[uint32]int{1: 1, 2: 3}, map[uint32]int{}}
		a := New(4, 1000, 1000).By(l)
		var all []*Place
		waits := map[*Place]*Request{}
		ask := func(p *Place, c Class) {
			q := &Request{Place: p, Class: c, Begin: func() { delete(waits, p) }, Refuse: func() { delete(waits, p) }}
			waits[p] = q
			a.Ask(q)
		}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			var p *Place
			if len(all) > 0 {
				p = rapid.SampledFrom(all).Draw(t, "guest")
			}
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case p == nil || what < 4:
				p = a.NewPlace(1).Of(uint32(rapid.IntRange(0, 2).Draw(t, "namespace")), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "w"),
					"")
				all = append(all, p)
				ask(p, rapid.SampledFrom([]Class{Woken, Starting}).Draw(t, "class"))
			case waits[p] != nil && what < 6:
				waits[p].Withdraw()
			case waits[p] != nil:
			case what == 4:
				p.Park(1)
			case what == 5:
				p.TryEnter()
			case what == 6:
				p.Rest()
			case what == 7:
				p.Wake()
			case what == 8 && p.at == outside:
				ask(p, Woken)
			default:
				p.Leave()
			}
			counted := map[uint32]int{}
			for _, p := range all {
				if p.at == inside || p.at == rested {
					counted[p.group.namespace]++
				}
			}
			for ns := range uint32(3) {
				if counted[ns] != l.now[ns] || l.most[ns] > 0 && counted[ns] > l.most[ns] {
					t.Fatalf("namespace %d has %d inside, %d are counted, the limit is %d", ns, counted[ns], l.now[ns], l.most[ns])
				}
			}
			for p := range waits {
				if a.free > 0 && !l.Full(p.group.namespace) {
					t.Fatalf("a guest of namespace %d waits, %d places are free", p.group.namespace, a.free)
				}
			}
		}
		for p := range waits {
			waits[p].Withdraw()
		}
		for _, p := range all {
			p.Leave()
		}
		for c := range a.waiters {
			if q := &a.waiters[c]; q.Len() != 0 || len(q.blocked) != 0 || len(q.groups) != 0 || a.free != 4 {
				t.Fatalf("something is left: %+v", q)
			}
		}
	})
}

// A guest that has computed for a slice gives way to others of its namespace, even if the namespace's limit is one.
func TestSliceWithinANamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(4, 1000, 0).By(limits{map[uint32]int{1: 1}, map[uint32]int{}})
		var begun []string
		first, second := asks(a, Woken, "a/x", &begun), asks(a, Starting, "a/y", &begun)
		if first.at != inside || second.at != outside {
			t.Fatal(first.at, second.at)
		}
		done := make(chan error, 1)
		go func() { done <- first.Slice(t.Context(), 0, true) }()
		synctest.Wait()
		if first.at != returning || second.at != inside {
			t.Fatalf("it stands at %d, the other at %d", first.at, second.at)
		}
		go func() { done <- second.Slice(t.Context(), 0, true) }()
		synctest.Wait()
		if err := <-done; err != nil || first.at != inside || second.at != returning {
			t.Fatalf("it stands at %d, the other at %d: %v", first.at, second.at, err)
		}
		first.Leave()
		if err := <-done; err != nil || second.at != inside {
			t.Fatal(err, second.at)
		}
	})
}
