package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// asks has a guest of a group ask for a place, and records when it begins.
func asks(a *Admission, c Class, group string, begun *[]string) *Place {
	namespace := uint32(0)
	if name, workflow, ok := strings.Cut(group, "/"); ok {
		namespace, group = uint32(len(name)), workflow
	}
	p := a.NewPlace(1).Of(namespace, group, "")
	a.Ask(&Request{Place: p, Class: c, Begin: func() { *begun = append(*begun, group) }, Refuse: func() {}})
	return p
}

// A group with many waiting guests does not delay a group with one.
func TestTurns(t *testing.T) {
	a := New(1, 1000, 0)
	var begun []string
	inside := asks(a, Woken, "x", &begun)
	var waiting []*Place
	for range 4 {
		waiting = append(waiting, asks(a, Woken, "flood", &begun))
	}
	for _, name := range []string{"a", "b", "a", "n/a"} {
		waiting = append(waiting, asks(a, Woken, name, &begun))
	}
	for range len(waiting) {
		inside.Leave()
		for _, p := range waiting {
			if p.at != outside {
				inside = p
			}
		}
	}
	if got, want := strings.Join(begun, " "), "x flood a b a flood a flood flood"; got != want {
		t.Errorf("they began as %s, want %s", got, want)
	}
	// A group that comes late does not make up for turns that it did not wait for.
	begun = nil
	for _, name := range []string{"old", "new", "new", "old", "new"} {
		waiting = append(waiting, asks(a, Woken, name, &begun))
	}
	for range 5 {
		inside.Leave()
		for _, p := range waiting {
			if p.at != outside {
				inside = p
			}
		}
	}
	if got, want := strings.Join(begun, " "), "old new new old new"; got != want {
		t.Errorf("they began as %s, want %s", got, want)
	}
	if len(a.waiters[Woken].groups) != 0 {
		t.Errorf("%d groups are remembered of which nobody waits", len(a.waiters[Woken].groups))
	}
}

// The queue is sorted by turns, and then by arrival, whichever end a guest was inserted from.
func TestQueueIsSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		came := map[*waiter]int{}
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 && q.Len() > 0 {
				q.enter(waiterOf(q.Front()))
				continue
			}
			w := &waiter{place: &Place{group: group{workflow: fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "group"))}}}
			came[w] = n
			q.push(w)
			for e := q.Front(); e != nil && e.Next() != nil; e = e.Next() {
				a, b := e.Value.(*waiter), e.Next().Value.(*waiter)
				if a.turn > b.turn || a.turn == b.turn && came[a] > came[b] {
					t.Fatalf("turn %d that came as %d stands before turn %d that came as %d", a.turn, came[a], b.turn, came[b])
				}
			}
			if q.Front().Value.(*waiter).turn < q.now {
				t.Fatal("a turn that is over")
			}
		}
	})
}

// A guest that has computed for a slice lets waiting guests go first, stays if there are none, and comes back.
func TestSlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(2, 1000, 0)
		a.longLimit = 1
		var begun []string
		first, second := asks(a, Woken, "first", &begun), asks(a, Woken, "second", &begun)
		slice := func(p *Place) (done chan error) {
			done = make(chan error, 1)
			go func() { done <- p.Slice(t.Context(), 0, true) }()
			synctest.Wait()
			return done
		}
		if err := <-slice(first); err != nil || !first.long || a.long != 1 {
			t.Fatalf("nobody waits: %v, long %v, %d of them", err, first.long, a.long)
		}
		waits := slice(second)
		if len(waits) != 0 || second.at != returning || a.free != 1 {
			t.Fatalf("two compute for long, of one that may: it stands at %d, %d places are free", second.at, a.free)
		}
		short := asks(a, Starting, "short", &begun)
		if short.at != inside {
			t.Error("the place was not given to one that has not computed yet")
		}
		short.Leave()
		waits1 := slice(first) // now they take turns
		if err := <-waits; err != nil || second.at != inside || first.at != returning {
			t.Fatalf("the second one is at %d, %v, the first one at %d", second.at, err, first.at)
		}
		second.Rest() // its next slice is the first one since it waited
		if err := <-waits1; err != nil || a.long != 1 || second.long {
			t.Fatalf("%v, %d compute for long", err, a.long)
		}
		first.Leave()
		if a.long != 0 || first.Slice(t.Context(), 0, true) != nil || first.at != outside {
			t.Error("a guest that is outside has a slice")
		}
		second.Leave()
		if a.free != 2 || a.held != 0 {
			t.Errorf("%d places are free, %d bytes are held", a.free, a.held)
		}
	})
}

// However many runs wake, new ones begin: one per so many others, of each workflow in turn.
func TestStartsAreNotStarved(t *testing.T) {
	a := New(1, 1000, 0)
	var begun []string
	now := asks(a, Woken, "flood", &begun)
	waiting := []*Place{asks(a, Starting, "flood", &begun), asks(a, Starting, "flood", &begun), asks(a, Starting, "honest", &begun)}
	for range 24 {
		waiting = append(waiting, asks(a, Woken, "flood", &begun))
		now.Leave()
		now = waiting[slices.IndexFunc(waiting, func(p *Place) bool { return p.at == inside })]
	}
	if n := slices.Index(begun, "honest"); n < 0 || n > 10 {
		t.Errorf("a new run of a workflow begins as number %d of %q", n, begun)
	}
	if n := a.waiters[Starting].Len(); n != 0 {
		t.Errorf("%d new runs wait", n)
	}
}

// However much work others have, one long-computing guest continues; and a stopped guest leaves the queue.
func TestSliceIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(1, 1000, 0)
		var begun []string
		long := asks(a, Woken, "long", &begun)
		var flood []*Place
		for range 2 * maxOvertaken {
			flood = append(flood, asks(a, Woken, "flood", &begun))
		}
		done := make(chan error, 1)
		go func() { done <- long.Slice(t.Context(), 0, true) }()
		synctest.Wait()
		for i := 0; long.at != inside; i++ {
			flood[i].Leave()
		}
		if err := <-done; err != nil || len(begun) != 1+maxOvertaken {
			t.Errorf("%v; %d of the others went before it, want %d", err, len(begun)-1, maxOvertaken)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- long.Slice(ctx, 0, true) }()
		synctest.Wait()
		cancel()
		if err := <-done; err == nil || long.at != outside {
			t.Errorf("it was stopped: %v, it stands at %d", err, long.at)
		}
	})
}

// Guests that have computed for a slice keep their memory. They do not wait behind guests that wait for memory.
func TestSliceIsNotForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(1, 1, 0)
		var begun []string
		long := asks(a, Woken, "long", &begun)
		large := asks(a, Starting, "large", &begun)
		for range 3 {
			if err := long.Slice(t.Context(), 0, true); err != nil || long.at != inside || large.at != outside {
				t.Fatalf("%v: the one stands at %d, the other at %d", err, long.at, large.at)
			}
		}
		long.Leave()
		if large.at != inside {
			t.Error("there is room for the other, which has not come in")
		}
	})
}
