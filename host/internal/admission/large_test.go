package admission

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
)

// asksFor has a guest ask that will hold the given number of bytes.
func asksFor(a *Admission, bytes int64) *Place {
	p := a.NewPlace(bytes)
	a.Ask(&Request{Place: p, Class: Woken, Begin: func() {}, Refuse: func() {}})
	return p
}

// One large guest continues, whatever the others hold. A second one gives up its instance, and gets in when there is
// room for it; in the meantime small guests continue.
func TestLarge(t *testing.T) {
	a := New(4, 8*LargeBytes, 0)
	a.longLimit = 4
	first, second := asksFor(a, 1), asksFor(a, 1)
	for _, bytes := range []int64{LargeBytes, 3 * LargeBytes, 4 * LargeBytes} {
		if err := first.Slice(t.Context(), bytes, true); err != nil {
			t.Fatal("the only large one:", err)
		}
	}
	if err := second.Slice(t.Context(), LargeBytes-1, true); err != nil {
		t.Fatal("one that is not large:", err)
	}
	if err := second.Slice(t.Context(), LargeBytes, true); !errors.Is(err, ErrCrowded) {
		t.Fatal("a second large one, with no room:", err)
	}
	second.Leave()
	if err := first.Slice(t.Context(), 8*LargeBytes, true); err != nil {
		t.Fatal("the only large one, which holds all there is:", err)
	}
	again := asksFor(a, 4*LargeBytes)
	small := asksFor(a, 1)
	if again.at != outside || small.at != outside {
		t.Fatalf("there is no room, and they stand at %d and %d", again.at, small.at)
	}
	first.Leave()
	if small.at != inside || again.at != inside || a.large != 4*LargeBytes {
		t.Fatalf("they stand at %d and %d, %d bytes are of large ones", small.at, again.at, a.large)
	}
	third := asksFor(a, LargeBytes)
	if fourth := asksFor(a, 1); third.at != outside || fourth.at != inside {
		t.Fatalf("large ones have their half, and they stand at %d and %d", third.at, fourth.at)
	}
	if err := again.Slice(t.Context(), 4*LargeBytes, true); err != nil {
		t.Error("one that holds what it was let in for:", err)
	}
	again.Leave()
	if third.at != inside {
		t.Error("it has not come in")
	}
}

// A large guest that cannot leave takes turns with others that have computed for a slice.
func TestLargeTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(4, 4*LargeBytes, 0)
		a.longLimit = 2
		first, second := asksFor(a, 1), asksFor(a, 1)
		if err := errors.Join(first.Slice(t.Context(), 3*LargeBytes, false), first.Slice(t.Context(), 0, false)); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- second.Slice(t.Context(), 3*LargeBytes, false) }()
		synctest.Wait()
		if second.at != returning {
			t.Fatalf("guests hold too much, and two compute: it stands at %d", second.at)
		}
		first.Leave()
		if err := <-done; err != nil || second.at != inside {
			t.Fatal(err, second.at)
		}
	})
}

// Parked large guests give up their memory for a waiting one, which gets in however many others come.
func TestLargeIsNotStarved(t *testing.T) {
	a := New(1, 8*LargeBytes, 8*LargeBytes)
	parked := asksFor(a, 4*LargeBytes)
	parked.Park(4 * LargeBytes)
	p := asksFor(a, 4*LargeBytes)
	if parked.at != evicted {
		t.Fatalf("it stands at %d", parked.at)
	}
	parked.Leave()
	if p.at != inside {
		t.Fatalf("it stands at %d", p.at)
	}
	var flood []*Place
	for range 2 * maxOvertaken {
		flood = append(flood, asksFor(a, 1))
	}
	waits := asksFor(a, 4*LargeBytes)
	p.Leave()
	n := 0
	for ; waits.at == outside; n++ {
		flood[n].Leave()
	}
	if n > maxOvertaken+1 {
		t.Errorf("%d others went first", n)
	}
}

func instancesOf(a *Admission) int {
	n, _, _ := a.Usage()
	return n
}

// Computing guests have all processors until another guest comes, and again after a while without one.
func TestLongMost(t *testing.T) {
	a := New(4, 1000, 0)
	a.longLimit = 2
	first := asksFor(a, 1)
	for i := range 2 * quietSlices {
		if want := map[bool]int{true: 2, false: 1}[i >= quietSlices]; first.longMost() != want {
			t.Fatalf("after %d slices %d may compute, want %d", i, first.longMost(), want)
		}
		if err := first.Slice(t.Context(), 0, true); err != nil {
			t.Fatal(err)
		}
	}
	asksFor(a, 1).Leave()
	if first.longMost() != 1 {
		t.Error("somebody came")
	}
	n := runtime.GOMAXPROCS(0)
	for spare, want := range map[int]int{0: n, 1: max(n-1, 1), n: 1} {
		Spare.Store(int32(spare))
		if a := New(4, 1000, 0); a.longLimit != want {
			t.Errorf("%d processors, %d spare: %d guests may compute, want %d", n, spare, a.longLimit, want)
		}
	}
	Spare.Store(0)
}
