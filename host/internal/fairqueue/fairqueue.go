// Package fairqueue is a queue of groups that take turns: a group with a thousand queued items delays a group with one by at most
// one item, and a group whose items are large comes less often.
//
// It is start-time fair queueing (P. Goyal, H. Vin and H. Cheng, 1996): each group has a time, which goes on by the weight of
// what was taken of it. The group is next whose time is lowest; one that comes has at least the time of the group that was
// taken last, so that nobody saves up what he does not use.
package fairqueue

import "container/heap"

// Queue is what waits, of groups that take turns. Within a group it is first in, first out. The zero Queue is empty.
type Queue[G comparable, T any] struct {
	groups map[G]*line[G, T] // of those that are not empty, or have taken much since the queue was last empty
	order  order[G, T]       // those that are not empty
	now    uint64            // the time of the group that was taken last
	number uint64            // of groups that have come
	size   int
}

// line is what waits of a group.
type line[G comparable, T any] struct {
	group  G
	all    []T // from head on
	head   int
	time   uint64
	number uint64 // of two that have the same time, the lower one is next
	at     int    // in the order
}

// What an empty queue keeps, so that it need not be made again for the next few: groups, and room for what waits of each.
const (
	keptGroups = 16
	keptRoom   = 256
)

func (l *line[G, T]) len() int { return len(l.all) - l.head }

// Len returns how many wait.
func (q *Queue[G, T]) Len() int { return q.size }

// Push has something of a group wait.
func (q *Queue[G, T]) Push(group G, what T) {
	l := q.groups[group]
	if l == nil {
		if q.groups == nil {
			q.groups = map[G]*line[G, T]{}
		}
		l = &line[G, T]{group: group}
		q.groups[group] = l
	}
	if l.head > keptRoom && l.head > len(l.all)/2 { // what was taken is more than what waits
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

// Pop takes what is next. It reports false if there is nothing. What it took weighs nothing until Charge is called.
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

// Charge says how much of a group was taken.
func (q *Queue[G, T]) Charge(group G, weight int) {
	if q.size == 0 { // nobody has waited for it
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

// reset forgets what groups have taken.
func (q *Queue[G, T]) reset() {
	q.now = 0
	if len(q.groups) > keptGroups {
		clear(q.groups)
	}
	for _, l := range q.groups {
		l.time = 0
	}
}

// DeleteFunc takes out what waits of which del is true.
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

// order is a heap of the groups, by time.
type order[G comparable, T any] []*line[G, T]

func (o order[G, T]) Len() int { return len(o) }

func (o order[G, T]) Less(i, j int) bool {
	return o[i].time < o[j].time || o[i].time == o[j].time && o[i].number < o[j].number
}

func (o order[G, T]) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].at, o[j].at = i, j
}

func (o *order[G, T]) Push(l any) {
	x := l.(*line[G, T]) //nolint:forcetypeassert // it holds nothing else
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
