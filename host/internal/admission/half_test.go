package admission

import (
	"slices"
	"testing"
)

// halfDone starts guests of a group that stay half done.
func halfDone(a *Admission, group string, n int) (all []*Place) {
	var begun []string
	for range n {
		p := asks(a, Starting, group, &begun)
		a.mu.Lock()
		p.slowLocked(true)
		a.mu.Unlock()
		all = append(all, p)
	}
	return all
}

// A group with the maximum of half-done guests starts no further run, even if there are places; other groups, and
// woken runs, do. When one of the guests reaches a wait, the blocked runs begin, up to the number of places.
func TestHalfDone(t *testing.T) {
	a := New(leastHalfDone+4, 1000, 1000)
	half := halfDone(a, "bomb", leastHalfDone)
	var begun []string
	for range 20 {
		asks(a, Starting, "bomb", &begun)
	}
	other, woken := asks(a, Starting, "other", &begun), asks(a, Woken, "bomb", &begun)
	if want := []string{"other", "bomb"}; !slices.Equal(begun, want) {
		t.Fatalf("%v began, not %v", begun, want)
	}
	begun = nil
	half[0].Park(1)
	if len(begun) != 3 { // as many as there are places, with the place of half[0], which is parked
		t.Fatalf("one has come to a wait, and %v began", begun)
	}
	for _, p := range append(half[1:], other, woken) {
		p.Leave()
	}
	if len(begun) != 20 || len(a.half) != 0 {
		t.Errorf("%d began, and half done are %v", len(begun), a.half)
	}
}

// All blocked runs begin, even if no guest before them computes for long.
func TestHalfDoneShort(t *testing.T) {
	a := New(leastHalfDone, 1<<40, 1<<40)
	half := halfDone(a, "bomb", leastHalfDone)
	var begun []string
	var next []*Place
	for range 3 * leastHalfDone {
		next = append(next, asks(a, Starting, "bomb", &begun))
	}
	for _, p := range half {
		p.Leave()
	}
	for range 3 {
		for _, p := range next { // guests that have begun end; for the others this does nothing
			p.Leave()
		}
	}
	if _, waiting, _ := a.Usage(); waiting > 0 || len(begun) != len(next) {
		t.Errorf("%d of %d began, %d wait", len(begun), len(next), waiting)
	}
}

// A guest that gets its namespace's turn, but may not begin because of its group, does not block other guests of the
// namespace.
func TestHalfDoneInAFullNamespace(t *testing.T) {
	l := limits{map[uint32]int{}, map[uint32]int{}}
	a := New(100, 1<<40, 1<<40).By(l)
	halfDone(a, "n/bomb", leastHalfDone)
	var begun []string
	x := asks(a, Woken, "n/x", &begun)
	l.most[1] = leastHalfDone + 1 // now it is full
	begun = nil
	asks(a, Starting, "n/bomb", &begun)
	asks(a, Starting, "n/honest", &begun)
	x.Leave()
	if !slices.Equal(begun, []string{"honest"}) {
		t.Errorf("%v began", begun)
	}
}

// The groups of one namespace have a bound together, too; other namespaces begin.
func TestHalfDoneOfANamespace(t *testing.T) {
	a := New(1000, 1<<40, 1<<40)
	for i := range namespaceHalfDone {
		halfDone(a, "n/"+string(rune('a'+i)), leastHalfDone)
	}
	var begun []string
	asks(a, Starting, "n/honest", &begun)
	asks(a, Starting, "mm/other", &begun)
	if !slices.Equal(begun, []string{"other"}) {
		t.Errorf("%v began", begun)
	}
}

// A guest that is withdrawn after it got its namespace's turn leaves the turn to the next guest.
func TestWithdrawnAfterBrought(t *testing.T) {
	l := limits{map[uint32]int{1: 1}, map[uint32]int{}}
	a := New(2, 1<<40, 1<<40).By(l)
	var begun []string
	x, m := asks(a, Starting, "n/x", &begun), asks(a, Starting, "mm/m", &begun)
	var waits []*Request
	for range 2 {
		r := &Request{Place: a.NewPlace(1).Of(1, "w", ""), Class: Starting, Begin: func() { begun = append(begun, "w") }, Refuse: func() {}}
		a.Ask(r)
		waits = append(waits, r)
	}
	a.mu.Lock()
	a.firstLocked(Starting) // as any request does: both are blocked
	a.mu.Unlock()
	woken := asks(a, Woken, "mm/m", &begun) // waits for a place
	x.Leave()                               // it gets the place; the first guest of w gets n's turn, and waits for a place
	waits[0].Withdraw()
	m.Leave()
	woken.Leave()
	if _, waiting, _ := a.Usage(); waiting > 0 {
		t.Errorf("%d wait, %d of %d places are free, begun %v", waiting, a.free, a.total, begun)
	}
}

// A guest that may not begin causes no eviction.
func TestNoRoomForOneAside(t *testing.T) {
	a := New(100, leastHalfDone+100, 100)
	halfDone(a, "bomb", leastHalfDone)
	var begun []string
	parked := asks(a, Woken, "honest", &begun)
	parked.Park(100)
	p := a.NewPlace(50).Of(0, "bomb", "")
	a.Ask(&Request{Place: p, Class: Starting, Begin: func() {}, Refuse: func() {}})
	if isEvicted(parked) {
		t.Error("a parked guest was evicted")
	}
}
