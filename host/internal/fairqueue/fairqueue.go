// Package fairqueue has groups take turns: a group with a thousand queued items delays a group with one by at most one item.
//
// Turns is a round robin, for users that hold the items themselves. In a Queue, a group whose items are heavy gets fewer turns:
// it is start-time fair queueing (P. Goyal, H. Vin and H. Cheng, 1996). Each group has a virtual time, which Charge advances by
// the weight of what was popped. Pop takes from the group with the lowest virtual time. A group that joins starts no earlier
// than the group that was popped last, so an idle group saves up no credit.
package fairqueue

import "container/heap"

// Queue holds the pending items of groups that take turns. Within a group it is first in, first out. The zero Queue is empty.
type Queue[G comparable, T any] struct {
	groups map[G]*groupItems[G, T] // all groups since the last reset, which keeps up to keptGroups of them
	order  order[G, T]             // the groups with pending items
	now    uint64                  // the virtual time of the group that was popped last
	number uint64                  // the last groupItems.number that Push assigned
	size   int
}

// groupItems holds the pending items of a group.
type groupItems[G comparable, T any] struct {
	group  G
	all    []T // pending items start at head
	head   int
	time   uint64 // virtual time
	number uint64 // breaks ties of time: the lower number is next
	at     int    // index in the order
}

// An empty queue keeps its groups, up to keptGroups, and each group its slice, up to keptRoom items, for reuse.
const (
	keptGroups = 16
	keptRoom   = 256
)

func (l *groupItems[G, T]) len() int { return len(l.all) - l.head }

// Len returns the number of pending items.
func (q *Queue[G, T]) Len() int { return q.size }

// Push adds an item to a group.
func (q *Queue[G, T]) Push(group G, what T) {
	l := q.groups[group]
	if l == nil {
		if q.groups == nil {
			q.groups = map[G]*groupItems[G, T]{}
		}
		l = &groupItems[G, T]{group: group}
		q.groups[group] = l
	}
	if l.head > keptRoom && l.head > len(l.all)/2 { // most of the slice is popped items
		n := copy(l.all, l.all[l.head:])
		clear(l.all[n:])
		l.all, l.head = l.all[:n], 0
	}
	l.all = append(l.all, what)
	q.size++
	if l.len() == 1 {
		q.number++
		l.time, l.number = max(l.time, q.now), q.number
		heap.Push(&q.order, l)
	}
}

// Pop removes the next item, and returns false if there is none. The group's turn costs nothing until Charge is called.
func (q *Queue[G, T]) Pop() (group G, what T, ok bool) {
	if q.size == 0 {
		return group, what, false
	}
	l := q.order[0]
	group, what = l.group, l.all[l.head]
	var none T
	l.all[l.head] = none
	l.head++
	q.now = l.time
	q.size--
	if l.len() == 0 {
		heap.Pop(&q.order)
		l.all, l.head = l.all[:0], 0
		if cap(l.all) > keptRoom {
			l.all = nil
		}
	}
	return group, what, true
}

// Charge adds the weight of popped items to a group's virtual time.
func (q *Queue[G, T]) Charge(group G, weight int) {
	if q.size == 0 { // no other group was delayed
		q.reset()
		return
	}
	l := q.groups[group]
	if l == nil {
		return
	}
	l.time += uint64(max(weight, 0))
	if l.len() > 0 {
		heap.Fix(&q.order, l.at)
	}
}

// reset sets the virtual times to 0. The queue must be empty.
func (q *Queue[G, T]) reset() {
	q.now = 0
	if len(q.groups) > keptGroups {
		clear(q.groups)
	}
	for _, l := range q.groups {
		l.time = 0
	}
}

// DeleteFunc removes the pending items for which del returns true.
func (q *Queue[G, T]) DeleteFunc(del func(T) bool) {
	var order order[G, T]
	q.size = 0
	for _, l := range q.order {
		kept := l.all[:0]
		for _, what := range l.all[l.head:] {
			if !del(what) {
				kept = append(kept, what)
			}
		}
		clear(l.all[len(kept):])
		l.all, l.head = kept, 0
		if len(kept) > 0 {
			q.size += len(kept)
			order = append(order, l)
		}
	}
	for i, l := range order {
		l.at = i
	}
	q.order = order
	heap.Init(&q.order)
}

// order is a heap of the groups with pending items, by virtual time.
type order[G comparable, T any] []*groupItems[G, T]

func (o order[G, T]) Len() int { return len(o) }

func (o order[G, T]) Less(i, j int) bool {
	return o[i].time < o[j].time || o[i].time == o[j].time && o[i].number < o[j].number
}

func (o order[G, T]) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].at, o[j].at = i, j
}

func (o *order[G, T]) Push(l any) {
	x := l.(*groupItems[G, T]) //nolint:forcetypeassert // the heap holds only groupItems
	x.at = len(*o)
	*o = append(*o, x)
}

func (o *order[G, T]) Pop() any {
	l := *o
	x := l[len(l)-1]
	l[len(l)-1] = nil
	*o = l[:len(l)-1]
	return x
}
