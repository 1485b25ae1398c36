package admission

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

// Guests that compute for long keep a quarter of the memory, so that those that wake enter; whoever becomes slow beyond that
// gives its instance up, unless it cannot. What has waited for something, or is large, is not slow.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		a := New(16, 160*mib, 160*mib)
		a.longLimit = 16
		a.quiet = quietSlices
		var slow []*Place
		for range 4 {
			p := asksFor(a, 1)
			if err := p.Slice(t.Context(), 10*mib, true); err != nil {
				t.Fatal(err)
			}
			slow = append(slow, p)
		}
		fifth := asksFor(a, 1)
		if err := fifth.Slice(t.Context(), 10*mib, true); !errors.Is(err, ErrSlow) {
			t.Fatal("one beyond the quarter:", err)
		}
		if err := slow[0].Slice(t.Context(), 12*mib, true); err != nil {
			t.Fatal("one that is slow already:", err)
		}
		fifth.Leave()
		again := asksFor(a, LargeBytes)
		if err := again.Slice(t.Context(), LargeBytes, true); err != nil {
			t.Fatal("one that has come again:", err)
		}
		sixth := asksFor(a, 1)
		if err := sixth.Slice(t.Context(), 10*mib, false); err != nil {
			t.Fatal("one that cannot leave:", err)
		}
		if want := int64(42 * mib); a.slow != want || a.bodies[group{}] != 10*mib {
			t.Fatalf("slow guests hold %d bytes, not %d, and bodies %v", a.slow, want, a.bodies)
		}
		sixth.Leave()
		slow[0].Park(12 * mib)
		slow[1].Rest()
		if want := int64(20 * mib); a.slow != want {
			t.Fatalf("slow guests hold %d bytes, not %d", a.slow, want)
		}
		seventh := asksFor(a, 1)
		if err := seventh.Slice(t.Context(), 10*mib, true); err != nil {
			t.Fatal("one for which others have made room:", err)
		}
		for _, p := range append(slow, again, seventh) {
			p.Leave()
		}
		if a.slow != 0 || a.held != 0 || len(a.bodies) != 0 {
			t.Fatalf("nobody is in, and they hold %d bytes, slow ones %d, bodies %v", a.held, a.slow, a.bodies)
		}
		alone := asksFor(a, 1)
		if err := alone.Slice(t.Context(), LargeBytes-1, true); err != nil {
			t.Fatal("one that is alone:", err)
		}
	})
}

// A group with as many half-done guests as it may have begins no further run, though there are places; others do, and the group does
// again when one of its guests comes to a wait, or leaves. Runs that have waited enter all the same.
func TestHalfDone(t *testing.T) {
	a := New(2*maxHalfDone, 1000, 1000)
	a.longLimit = 2 * maxHalfDone
	a.quiet = quietSlices
	var begun []string
	half := make([]*Place, maxHalfDone)
	for i := range half {
		half[i] = asks(a, Starting, "bomb", &begun)
		if err := half[i].Slice(t.Context(), 0, true); err != nil {
			t.Fatal(err)
		}
	}
	begun = nil
	var next [3]*Place
	for i := range next {
		next[i] = asks(a, Starting, "bomb", &begun)
	}
	asks(a, Starting, "other", &begun)
	asks(a, Woken, "bomb", &begun)
	if want := []string{"other", "bomb"}; !slices.Equal(begun, want) {
		t.Fatalf("%v began, not %v", begun, want)
	}
	begun = nil
	half[0].Park(1)
	if len(begun) != 1 {
		t.Fatalf("one has come to a wait, and %v began", begun)
	}
	if err := next[0].Slice(t.Context(), 0, true); err != nil {
		t.Fatal(err)
	}
	half[1].Leave()
	if len(begun) != 2 {
		t.Fatalf("one has left, and %v began", begun)
	}
	for _, p := range slices.Concat(half[2:], next[:1]) {
		p.Leave()
	}
	if len(begun) != 3 || len(a.half) != 0 {
		t.Errorf("all have left: %v began, and half done are %v", begun, a.half)
	}
}
