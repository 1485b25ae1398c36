package timers

import (
	"cmp"
	"fmt"
	"math"
	"math/rand"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// check verifies the links between heap, nodes and index, and the order of the heap.
func (s *Set[K]) check() error {
	if len(s.index) != len(s.heap) {
		return fmt.Errorf("%d keys, %d items", len(s.index), len(s.heap))
	}
	for i, it := range s.heap {
		if n := s.nodes[it.node]; int(n.place) != i || s.index[n.key] != it.node {
			return fmt.Errorf("item %d has node %d, whose place is %d, and whose key has node %d", i, it.node, n.place,
				s.index[n.key])
		}
		if i > 0 && it.before(s.heap[(i-1)/arity]) {
			return fmt.Errorf("item %d fires before its parent", i)
		}
	}
	unused := 0
	for f := s.free; f != 0; f = s.nodes[f-1].place {
		unused++
	}
	if len(s.heap)+unused != len(s.nodes) {
		return fmt.Errorf("%d items and %d unused nodes of %d", len(s.heap), unused, len(s.nodes))
	}
	if len(s.nodes) > minNodes && len(s.heap) < len(s.nodes)/shrinkAt {
		return fmt.Errorf("%d nodes for %d timers", len(s.nodes), len(s.heap))
	}
	return nil
}

// model is a set as a list, sorted by deadline and insertion.
type model []timer

type timer struct {
	key int
	due int64
}

func (m *model) remove(key int) bool {
	n := len(*m)
	*m = slices.DeleteFunc(*m, func(e timer) bool {
		return e.key == key
	})
	return len(*m) < n
}

func (m *model) due(key int) (int64, bool) {
	for _, e := range *m {
		if e.key == key {
			return e.due, true
		}
	}
	return 0, false
}

func (m *model) put(key int, due int64) {
	if old, ok := m.due(key); ok && old == due {
		return
	}
	m.remove(key)
	i, _ := slices.BinarySearchFunc(*m, due, func(e timer, due int64) int {
		return cmp.Or(cmp.Compare(e.due, due), -1) // after its equals
	})
	*m = slices.Insert(*m, i, timer{key, due})
}

// TestModel compares the set with a sorted list.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set[int]
		var m model
		keys := rapid.SampledFrom([]int{3, 30, 1000}).Draw(t, "keys")
		key := rapid.IntRange(0, keys)
		due := rapid.OneOf(rapid.Int64Range(-3, 3), rapid.Int64Range(0, 1000), rapid.Int64())
		pop := func(now int64) {
			k, d, ok := s.Pop(now)
			if want := len(m) > 0 && m[0].due <= now; ok != want || ok && (k != m[0].key || d != m[0].due) {
				t.Fatalf("Pop(%d) = %d, %d, %v, want the first of %v", now, k, d, ok, m)
			}
			if ok {
				m = m[1:]
			}
		}
		for range rapid.IntRange(1, 100).Draw(t, "operations") {
			switch rapid.IntRange(0, 6).Draw(t, "operation") {
			case 0, 1:
				k, d := key.Draw(t, "put"), due.Draw(t, "due")
				s.Put(k, d)
				m.put(k, d)
			case 2:
				for range rapid.IntRange(1, 200).Draw(t, "burst") {
					k, d := key.Draw(t, "put"), due.Draw(t, "due")
					s.Put(k, d)
					m.put(k, d)
				}
			case 3:
				k := key.Draw(t, "remove")
				if got, want := s.Remove(k), m.remove(k); got != want {
					t.Fatalf("Remove(%d) = %v", k, got)
				}
			case 4:
				pop(due.Draw(t, "now"))
			case 5:
				for range rapid.IntRange(1, 200).Draw(t, "pops") {
					pop(math.MaxInt64)
				}
			default:
				k := key.Draw(t, "of")
				got, ok := s.Due(k)
				if want, wantOK := m.due(k); got != want || ok != wantOK {
					t.Fatalf("Due(%d) = %d, %v, want %d, %v", k, got, ok, want, wantOK)
				}
			}
			next, ok := s.Next()
			if s.Len() != len(m) || ok != (len(m) > 0) || ok && next != m[0].due {
				t.Fatalf("Len() = %d, Next() = %d, %v, want %v", s.Len(), next, ok, m)
			}
			if err := s.check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestAllocates checks that a set that neither grows nor shrinks allocates nothing.
func TestAllocates(t *testing.T) {
	var s Set[run]
	keys := runs(100)
	for i, k := range keys {
		s.Put(k, int64(i))
	}
	due := int64(len(keys))
	turn := func() {
		for _, k := range keys {
			s.Put(k, due) // moves
			due++
		}
		for range 20 {
			k, _, _ := s.Pop(math.MaxInt64)
			s.Put(k, due)
			due++
		}
	}
	if n := testing.AllocsPerRun(100, turn); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// TestBurst checks that the memory of a burst is returned while timers remain.
func TestBurst(t *testing.T) {
	const n = 1 << 17
	var s Set[run]
	keys := runs(n)
	before := heapBytes()
	for i, k := range keys {
		s.Put(k, int64(i))
	}
	full := heapBytes() - before
	for i := range n - n/64 {
		if k, due, ok := s.Pop(n); !ok || k != keys[i] || due != int64(i) {
			t.Fatalf("timer %d: %v, %d, %v", i, k, due, ok)
		}
	}
	some := heapBytes() - before
	for _, k := range keys {
		s.Remove(k)
	}
	none := heapBytes() - before
	t.Logf("%d bytes for a timer; %d of %d bytes with one in 64 left, %d with none", full/n, some, full, none)
	if full/n > 160 {
		t.Errorf("%d bytes for a timer", full/n)
	}
	if some > full/8 {
		t.Errorf("%d of %d bytes are kept for one timer in 64", some, full)
	}
	if none > 1<<14 {
		t.Errorf("%d bytes are kept by an empty set", none)
	}
	runtime.KeepAlive(&s)
	runtime.KeepAlive(keys)
}

// run is a key like that of a run.
type run struct {
	_  uint32
	id string
}

func runs(n int) []run {
	keys := make([]run, n)
	for i := range keys {
		keys[i].id = fmt.Sprintf("%026d", i)
	}
	return keys
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

var sizes = []int{1_000, 100_000, 1_000_000}

// filled returns a set of n timers with deadlines in random order, and their keys.
func filled(n int) (*Set[run], []run) {
	s, keys := new(Set[run]), runs(n)
	for i, k := range rand.Perm(n) {
		s.Put(keys[i], int64(k))
	}
	return s, keys
}

// BenchmarkFill inserts all timers and reports the memory that each takes, without the text of its id.
func BenchmarkFill(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			keys, order := runs(n), rand.Perm(n)
			before := heapBytes()
			var s *Set[run]
			for b.Loop() {
				s = new(Set[run])
				for i, k := range order {
					s.Put(keys[i], int64(k))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/timer")
			b.ReportMetric(float64(heapBytes()-before)/float64(n), "B/timer")
			runtime.KeepAlive(s)
			runtime.KeepAlive(keys)
		})
	}
}

// BenchmarkMove moves a timer among n others to another deadline.
func BenchmarkMove(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, keys := filled(n)
			rnd := rand.New(rand.NewSource(1))
			for b.Loop() {
				s.Put(keys[rnd.Intn(n)], rnd.Int63n(int64(n)))
			}
		})
	}
}

// BenchmarkPopPut takes the earliest of n timers and puts it back at the end, as a run that sleeps again.
func BenchmarkPopPut(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, _ := filled(n)
			for b.Loop() {
				k, due, _ := s.Pop(math.MaxInt64)
				s.Put(k, due+int64(n))
			}
		})
	}
}

// BenchmarkDrain takes all of n timers, which includes returning their memory.
func BenchmarkDrain(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s, _ := filled(n)
				b.StartTimer()
				for s.Len() > 0 {
					s.Pop(math.MaxInt64)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/timer")
		})
	}
}
