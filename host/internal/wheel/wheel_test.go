package wheel

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type timer struct {
	due int64
	id  int
}

// TestModel compares the wheel with a sorted list: timers come due in order, and are taken one by one, at any time.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := rapid.Int64Range(-100, 1_000_000).Draw(t, "start")
		w := New[int](now)
		var model, due []timer
		sorted := func() { slices.SortStableFunc(model, func(a, b timer) int { return cmp.Compare(a.due, b.due) }) }
		id := 0
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			switch rapid.IntRange(0, 6).Draw(t, "operation") {
			case 0, 1, 2:
				d := rapid.OneOf(rapid.Int64Range(-5, 70), rapid.Int64Range(Slots-70, Slots+5), rapid.Int64Range(0, Slots)).Draw(t, "in")
				ok := w.Add(now+d, id)
				if want := d <= Slots-1; ok != want {
					t.Fatalf("add in %d ms: %v", d, ok)
				}
				if ok {
					model = append(model, timer{max(now+d, now+1), id})
				}
				id++
			case 3:
				w.AddDue(id)
				due = append(due, timer{now, id})
				id++
			case 4:
				for range rapid.IntRange(1, 10).Draw(t, "take") {
					got, ok := w.Take()
					if ok != (len(due) > 0) || ok && got != due[0].id {
						t.Fatalf("took %d %v, want the first of %v", got, ok, due)
					}
					if ok {
						due = due[1:]
					}
				}
			default:
				to := now + rapid.OneOf(rapid.Int64Range(-3, 100), rapid.Int64Range(0, 2*Slots)).Draw(t, "advance")
				sorted()
				n := 0
				for len(model) > 0 && model[0].due <= to {
					due, model = append(due, model[0]), model[1:]
					n++
				}
				if got := w.Advance(to); got != n {
					t.Fatalf("advance from %d to %d: %d came due, want %d", now, to, got, n)
				}
				now = max(now, to)
			}
			if w.Len() != len(model) || w.Due() != len(due) {
				t.Fatalf("%d timers, %d due; want %d, %d", w.Len(), w.Due(), len(model), len(due))
			}
		}
		sorted()
		next, ok := w.Next()
		if ok != (len(model) > 0) || ok && next != model[0].due {
			t.Fatalf("next %d %v, want %v", next, ok, model)
		}
	})
}

// TestBurst takes 64 bytes for a timer of a run, its id included, and nothing when all are taken.
func TestBurst(t *testing.T) {
	type run struct { // as a run's key
		_  uint32
		id string
	}
	const n = 1 << 17
	var before, full, after runtime.MemStats
	w := New[run](0)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n {
		w.Add(1, run{id: fmt.Sprintf("%026d", i)})
	}
	runtime.GC()
	runtime.ReadMemStats(&full)
	if w.Advance(1) != n {
		t.Fatal("they do not come due at once")
	}
	for i := range n {
		if got, ok := w.Take(); !ok || got.id != fmt.Sprintf("%026d", i) {
			t.Fatalf("timer %d: %v %v", i, got, ok)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := (int64(full.HeapAlloc) - int64(before.HeapAlloc)) / n; each > 64 {
		t.Errorf("%d bytes for a timer", each)
	}
	if left := int64(after.HeapAlloc) - int64(before.HeapAlloc); left > 1<<20 {
		t.Errorf("%d bytes are left", left)
	}
	runtime.KeepAlive(w)
}

func BenchmarkAddAdvance(b *testing.B) {
	w := New[[16]byte](0)
	now := int64(0)
	for b.Loop() {
		w.Add(now+1000, [16]byte{})
		now++
		w.Advance(now)
		w.Take()
	}
}
