package admission

import "container/list"

// queue is who waits in a class. Each has a turn: the next of its group, or that of whoever entered last, if its group has
// fallen behind. Who has the lowest turn enters first, and of those that have the same one, who came first. So a group that
// has many waiting has as many turns, and one that comes with the first of its own enters after one of each other group
// at most. (Start-time fair queueing, P. Goyal and others, 1996, where all guests are of one size.)
type queue struct {
	waiting list.List // of *waiter, by turn
	now     uint64    // the turn of who entered last
	groups  map[group]*turns
}

// turns is of a group that has somebody waiting.
type turns struct {
	last    uint64 // the one given last
	waiting int
}

// Len returns how many wait.
func (q *queue) Len() int { return q.waiting.Len() }

// Front returns who is first.
func (q *queue) Front() *list.Element { return q.waiting.Front() }

// push has somebody wait.
func (q *queue) push(w *waiter) *list.Element {
	if q.groups == nil {
		q.groups = map[group]*turns{}
	}
	g := q.groups[w.place.group]
	if g == nil {
		g = &turns{}
		q.groups[w.place.group] = g
	}
	g.waiting++
	w.turn = max(g.last, q.now) + 1
	g.last = w.turn
	return q.insert(w)
}

// insert puts somebody behind all whose turn is not later, from the end that is nearer by turns.
func (q *queue) insert(w *waiter) *list.Element {
	front, back := q.waiting.Front(), q.waiting.Back()
	if back == nil || turnOf(back) <= w.turn {
		return q.waiting.PushBack(w)
	}
	if w.turn < turnOf(front) {
		return q.waiting.PushFront(w)
	}
	if w.turn-turnOf(front) < turnOf(back)-w.turn {
		for e := front; ; e = e.Next() {
			if turnOf(e) > w.turn {
				return q.waiting.InsertBefore(w, e)
			}
		}
	}
	for e := back; ; e = e.Prev() {
		if turnOf(e) <= w.turn {
			return q.waiting.InsertAfter(w, e)
		}
	}
}

func turnOf(e *list.Element) uint64 {
	return e.Value.(*waiter).turn //nolint:forcetypeassert // it holds nothing else
}

// first returns who enters next.
func (q *queue) first() (*waiter, bool) {
	e := q.waiting.Front()
	if e == nil {
		return nil, false
	}
	return e.Value.(*waiter), true //nolint:forcetypeassert // it holds nothing else
}

// enter has the first one no longer wait.
func (q *queue) enter() {
	e := q.waiting.Front()
	q.now = turnOf(e)
	q.remove(e)
}

// remove has somebody no longer wait.
func (q *queue) remove(e *list.Element) {
	w := q.waiting.Remove(e).(*waiter) //nolint:forcetypeassert // it holds nothing else
	g := q.groups[w.place.group]
	if g.waiting--; g.waiting == 0 {
		delete(q.groups, w.place.group)
	}
}
