package admission

import (
	"errors"
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

// A guest that becomes slow beside many of another group stays, as long as its own has less than its part.
func TestSlowOfFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		a := New(16, 160*mib, 160*mib)
		a.longLimit = 16
		a.quiet = quietSlices
		slow := func(workflow string, bytes int64) error {
			p := a.NewPlace(1).Of(0, workflow, "")
			if err := p.Enter(t.Context(), Woken, nil); err != nil {
				t.Fatal(err)
			}
			return p.Slice(t.Context(), bytes, true)
		}
		for range 4 {
			if err := slow("many", 10*mib); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			workflow string
			bytes    int64
			want     error
		}{{"many", mib, ErrSlow}, {"few", 15 * mib, nil}, {"few", 5 * mib, nil}, {"few", mib, ErrSlow}, {"third", 13 * mib, nil},
			{"third", mib, ErrSlow}, {"fourth", 11 * mib, ErrSlow}, {"fourth", 10 * mib, nil}} {
			if err := slow(c.workflow, c.bytes); !errors.Is(err, c.want) {
				t.Errorf("%d bytes of %q: %v, want %v", c.bytes, c.workflow, err, c.want)
			}
		}
	})
}
