package timers

import (
	"testing"

	"pgregory.net/rapid"
)

// TestFew compares a Few with a Set, with numbers of timers for both of its representations.
func TestFew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var few Few[int64]
		var set Set[int64]
		next := int64(0)
		for range rapid.IntRange(0, 4*mostFew).Draw(t, "steps") {
			if set.Len() == 0 || rapid.IntRange(0, 3).Draw(t, "put") > 0 {
				next++
				due := rapid.Int64Range(0, 20).Draw(t, "due")
				few.Put(next, due)
				set.Put(next, due)
			} else {
				key := rapid.Int64Range(0, next).Draw(t, "key")
				few.Remove(key)
				set.Remove(key)
			}
		}
		for {
			key, due, ok := few.First()
			want, wantDue, wantOK := set.First()
			if key != want || due != wantDue || ok != wantOK {
				t.Fatalf("the first is %d at %d, %v, want %d at %d, %v", key, due, ok, want, wantDue, wantOK)
			}
			if popped, at, ok := set.Pop(1 << 62); ok && (popped != want || at != wantDue) {
				t.Fatalf("%d at %d was popped, the first was %d at %d", popped, at, want, wantDue)
			}
			if !ok {
				return
			}
			few.Remove(key)
		}
	})
}
