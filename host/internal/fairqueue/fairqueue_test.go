package fairqueue

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type queue = Queue[string, int]

func take(q *queue, n, weight int) (got []string) {
	for range n {
		g, _, ok := q.Pop()
		if !ok {
			break
		}
		q.Charge(g, weight)
		got = append(got, g)
	}
	return got
}

// TestTurns: a group with a thousand items lets a group that comes later have every second turn.
func TestTurns(t *testing.T) {
	var q queue
	for i := range 1000 {
		q.Push("many", i)
	}
	take(&q, 100, 10)
	q.Push("few", 0)
	q.Push("few", 1)
	if got := take(&q, 4, 10); slices.Index(got, "few") > 1 || slices.Index(got[2:], "few") > 1 {
		t.Error(got)
	}
	if q.Len() != 898 {
		t.Error(q.Len())
	}
}

// TestWeight: a group whose items weigh ten times as much gets a tenth of the turns.
func TestWeight(t *testing.T) {
	var q queue
	for i := range 100 {
		q.Push("heavy", i)
		q.Push("light", i)
	}
	heavy := 0
	for range 110 {
		g, _, _ := q.Pop()
		if g == "heavy" {
			heavy++
			q.Charge(g, 100)
		} else {
			q.Charge(g, 10)
		}
	}
	if heavy < 9 || heavy > 11 {
		t.Error(heavy)
	}
}

// TestComesAgain: a group that used much and is empty for a moment does not become first again, and a group that was
// idle for long has saved up nothing.
func TestComesAgain(t *testing.T) {
	var q queue
	for i := range 10 {
		q.Push("idle", i)
	}
	q.Push("much", 0)
	take(&q, 11, 1)
	for i := range 10 {
		q.Push("other", i)
	}
	q.Push("much", 0)
	if g := take(&q, 1, 1000); g[0] != "other" {
		t.Error(g) // all have the same virtual time: the first to come
	}
	q.Push("late", 0)
	if got := take(&q, 3, 1); slices.Index(got, "late") < 0 {
		t.Error(got)
	}
}

// TestRoom: the memory of a group that always has pending items does not grow.
func TestRoom(t *testing.T) {
	var q queue
	q.Push("busy", 0)
	for i := range 100_000 {
		q.Push("busy", i)
		take(&q, 1, 1)
	}
	if n := cap(q.groups["busy"].all); q.Len() != 1 || n > 4*keptRoom {
		t.Errorf("%d wait, with room for %d", q.Len(), n)
	}
}

// TestModel compares a queue with a simple model of lists.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		lists, times, numbers := map[string][]int{}, map[string]uint64{}, map[string]uint64{}
		var now, number uint64
		size, next := 0, 0
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				g := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "group")
				q.Push(g, next)
				if len(lists[g]) == 0 {
					number++
					times[g], numbers[g] = max(times[g], now), number
				}
				lists[g] = append(lists[g], next)
				next++
				size++
			},
			"take": func(t *rapid.T) {
				best := ""
				for g, l := range lists {
					if len(l) > 0 && (best == "" || times[g] < times[best] || times[g] == times[best] && numbers[g] < numbers[best]) {
						best = g
					}
				}
				g, what, ok := q.Pop()
				if ok != (size > 0) || g != best || ok && what != lists[g][0] {
					t.Fatalf("%q %d %v, not %q", g, what, ok, best)
				}
				if !ok {
					return
				}
				now = times[g]
				lists[g] = lists[g][1:]
				weight := rapid.IntRange(0, 9).Draw(t, "weight")
				q.Charge(g, weight)
				times[g] += uint64(weight)
				if size == 1 {
					clear(times)
					now = 0
				}
				size--
			},
			"delete": func(t *rapid.T) {
				n := rapid.IntRange(2, 5).Draw(t, "every")
				del := func(i int) bool { return i%n == 0 }
				q.DeleteFunc(del)
				size = 0
				for g := range lists {
					lists[g] = slices.DeleteFunc(slices.Clone(lists[g]), del)
					size += len(lists[g])
				}
			},
			"": func(t *rapid.T) {
				if q.Len() != size {
					t.Fatal(q.Len(), size)
				}
			},
		})
	})
}
