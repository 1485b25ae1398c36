package wheel

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type timer struct {
	due int64
	id  int
}

// TestModel compares the wheel with a sorted list.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := rapid.Int64Range(-100, 1_000_000).Draw(t, "start")
		w := New[int](now)
		var model []timer
		id := 0
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			if rapid.Bool().Draw(t, "add") {
				d := rapid.OneOf(rapid.Int64Range(-5, 70), rapid.Int64Range(Slots-70, Slots+5), rapid.Int64Range(0, Slots)).Draw(t, "in")
				ok := w.Add(now+d, id)
				if want := d <= Slots-1; ok != want {
					t.Fatalf("add in %d ms: %v", d, ok)
				}
				if ok {
					model = append(model, timer{max(now+d, now+1), id})
				}
				id++
				continue
			}
			to := now + rapid.OneOf(rapid.Int64Range(-3, 100), rapid.Int64Range(0, 2*Slots)).Draw(t, "advance")
			slices.SortStableFunc(model, func(a, b timer) int { return cmp.Compare(a.due, b.due) })
			var want, got []timer
			for len(model) > 0 && model[0].due <= to {
				want, model = append(want, model[0]), model[1:]
			}
			w.Advance(to, func(due int64, id int) { got = append(got, timer{due, id}) })
			if !slices.Equal(want, got) {
				t.Fatalf("advance from %d to %d: got %v, want %v", now, to, got, want)
			}
			now = max(now, to)
		}
		if w.Len() != len(model) {
			t.Fatalf("%d timers, want %d", w.Len(), len(model))
		}
		slices.SortStableFunc(model, func(a, b timer) int { return cmp.Compare(a.due, b.due) })
		next, ok := w.Next()
		if ok != (len(model) > 0) || ok && next != model[0].due {
			t.Fatalf("next %d %v, want %v", next, ok, model)
		}
	})
}

func TestFireMayAdd(t *testing.T) {
	w := New[int](0)
	w.Add(10, 0)
	var fired []int64
	w.Advance(100, func(due int64, n int) {
		fired = append(fired, due)
		if n < 5 {
			w.Add(due+7, n+1)
		}
	})
	if want := []int64{10, 17, 24, 31, 38, 45}; !slices.Equal(fired, want) {
		t.Fatalf("fired at %v, want %v", fired, want)
	}
}

func BenchmarkAddAdvance(b *testing.B) {
	w := New[[16]byte](0)
	now := int64(0)
	for b.Loop() {
		w.Add(now+1000, [16]byte{})
		now++
		w.Advance(now, func(int64, [16]byte) {})
	}
}
