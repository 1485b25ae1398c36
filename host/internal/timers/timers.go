// Package timers keeps a set of timers, one for each key, ordered by deadline. Deadlines are absolute instants of the
// wall clock, and a Set has no notion of the present: setting the machine's clock does not affect it.
//
// The package is pure: it starts no goroutine, reads no clock and takes no lock.
package timers

// A Set is a set of timers with keys of type K. The zero value is an empty set. It is not safe for concurrent use.
//
// The heap is 4-ary: it is half as deep as a binary one, and the children that are compared lie side by side. Its items
// hold the deadlines, so that comparisons stay within the heap. An item refers to its node, which holds the key and
// the item's place in the heap; the map is not touched while items move.
type Set[K comparable] struct {
	heap  []item
	nodes []node[K]
	index map[K]uint32 // from key to node
	free  uint32       // the first unused node plus one; 0 if all are in use
	seq   uint64       // the number of the last insertion
}

type item struct {
	due  int64 // unix ms
	seq  uint64
	node uint32
}

// before reports whether a fires before b.
func (a item) before(b item) bool { return a.due < b.due || a.due == b.due && a.seq < b.seq }

type node[K comparable] struct {
	key   K
	place uint32 // in the heap; of an unused node, the next unused one plus one
}

const (
	arity = 4

	// A set whose nodes are used by less than one in shrinkAt is rebuilt in its actual size, unless it has at most
	// minNodes. Rebuilding costs O(Len), and happens after at least shrinkAt-1 times as many removals. shrinkAt is large
	// so that it does not take long: some 10 ms after a burst of a million timers, when 31,250 are left.
	shrinkAt = 32
	minNodes = 64
)

// Len returns the number of timers.
func (s *Set[K]) Len() int { return len(s.heap) }

// Put sets the timer of key to a deadline. If the key has a timer, Put moves it. A timer that moves to another deadline counts
// as inserted last; a timer that already has the deadline keeps its order.
func (s *Set[K]) Put(key K, dueUnixMs int64) {
	n, ok := s.index[key]
	if !ok {
		s.insert(key, dueUnixMs)
		return
	}
	place := s.nodes[n].place
	if s.heap[place].due == dueUnixMs {
		return
	}
	s.seq++
	s.settle(place, item{dueUnixMs, s.seq, n})
}

// Remove removes the timer of key. It reports whether there was one.
func (s *Set[K]) Remove(key K) bool {
	n, ok := s.index[key]
	if ok {
		s.remove(s.nodes[n].place)
	}
	return ok
}

// Due returns the deadline of the timer of key. It reports false if the key has no timer.
func (s *Set[K]) Due(key K) (dueUnixMs int64, ok bool) {
	n, ok := s.index[key]
	if !ok {
		return 0, false
	}
	return s.heap[s.nodes[n].place].due, true
}

// Next returns the earliest deadline. It reports false if the set is empty.
func (s *Set[K]) Next() (dueUnixMs int64, ok bool) {
	if len(s.heap) == 0 {
		return 0, false
	}
	return s.heap[0].due, true
}

// First returns the timer that fires first, without removing it. It reports false if the set is empty.
func (s *Set[K]) First() (key K, dueUnixMs int64, ok bool) {
	if len(s.heap) == 0 {
		return key, 0, false
	}
	return s.nodes[s.heap[0].node].key, s.heap[0].due, true
}

// Pop removes and returns the earliest timer whose deadline is at or before an instant. Timers with equal deadlines are
// returned in the order of their insertion. It reports false if no timer is due.
func (s *Set[K]) Pop(nowUnixMs int64) (key K, dueUnixMs int64, ok bool) {
	if len(s.heap) == 0 || s.heap[0].due > nowUnixMs {
		return key, 0, false
	}
	first := s.heap[0]
	key = s.nodes[first.node].key
	s.remove(0)
	return key, first.due, true
}

func (s *Set[K]) insert(key K, due int64) {
	if s.index == nil {
		s.index = map[K]uint32{}
	}
	n := s.free - 1
	if s.free != 0 {
		s.free = s.nodes[n].place
		s.nodes[n].key = key
	} else {
		n = uint32(len(s.nodes))
		s.nodes = append(s.nodes, node[K]{key: key})
	}
	s.index[key] = n
	s.seq++
	s.heap = append(s.heap, item{})
	s.up(uint32(len(s.heap)-1), item{due, s.seq, n})
}

// remove removes the item at a place and frees its node.
func (s *Set[K]) remove(place uint32) {
	n := s.heap[place].node
	delete(s.index, s.nodes[n].key)
	s.nodes[n] = node[K]{place: s.free} // clear the key, so that it can be collected
	s.free = n + 1
	last := len(s.heap) - 1
	moved := s.heap[last]
	s.heap = s.heap[:last]
	if int(place) < last {
		s.settle(place, moved)
	}
	if len(s.nodes) > minNodes && len(s.heap) < len(s.nodes)/shrinkAt {
		s.shrink()
	}
}

// settle puts an item where it belongs, given a free place in the heap.
func (s *Set[K]) settle(place uint32, it item) {
	if place > 0 && it.before(s.heap[(place-1)/arity]) {
		s.up(place, it)
	} else {
		s.down(place, it)
	}
}

// up puts an item at a free place or at one of its ancestors.
func (s *Set[K]) up(place uint32, it item) {
	for place > 0 {
		parent := (place - 1) / arity
		if !it.before(s.heap[parent]) {
			break
		}
		s.set(place, s.heap[parent])
		place = parent
	}
	s.set(place, it)
}

// down puts an item at a free place or at one of its descendants.
func (s *Set[K]) down(place uint32, it item) {
	for {
		child := int(place)*arity + 1
		if child >= len(s.heap) {
			break
		}
		least := child
		for c := child + 1; c < min(child+arity, len(s.heap)); c++ {
			if s.heap[c].before(s.heap[least]) {
				least = c
			}
		}
		if !s.heap[least].before(it) {
			break
		}
		s.set(place, s.heap[least])
		place = uint32(least)
	}
	s.set(place, it)
}

func (s *Set[K]) set(place uint32, it item) {
	s.heap[place] = it
	s.nodes[it.node].place = place
}

// shrink moves the timers to slices and a map of their size. It makes a new map because a map never returns memory.
func (s *Set[K]) shrink() {
	old := *s
	n := len(old.heap)
	*s = Set[K]{make([]item, n), make([]node[K], n), make(map[K]uint32, n), 0, old.seq}
	for i, it := range old.heap { // the order of the heap stays
		key, place := old.nodes[it.node].key, uint32(i)
		s.heap[i] = item{it.due, it.seq, place}
		s.nodes[i] = node[K]{key, place}
		s.index[key] = place
	}
}
