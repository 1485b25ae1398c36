package wheel

import "testing"

// TestAllocates takes nothing from the heap once the slab has its size.
func TestAllocates(t *testing.T) {
	w := New[[3]uint64](0)
	now := int64(0)
	taken := 0
	turn := func() {
		for i := range int64(100) {
			w.Add(now+1+i%50, [3]uint64{})
		}
		now += 60
		w.Advance(now)
		for _, ok := w.Take(); ok; _, ok = w.Take() {
			taken++
		}
	}
	w.Add(1<<15, [3]uint64{}) // an empty wheel gives its memory back
	turn()
	if n := testing.AllocsPerRun(100, turn); n != 0 || taken != 102*100 {
		t.Fatalf("%v allocations for 100 timers, %d taken", n, taken)
	}
}
