package admission

import (
	"container/list"
	"maps"
	"slices"
)

// queue is who waits in a class. Each has a turn: the next of its group, or that of whoever entered last, if its group has
// fallen behind. Who has the lowest turn enters first, and of those that have the same one, who came first. So a group that
// has many waiting has as many turns, and one that comes with the first of its own enters after one of each other group
// at most. (Start-time fair queueing, P. Goyal and others, 1996, where all guests are of one size.)
//
// Those who may not come in because of others of their namespaces, or of their groups, are set aside, so that nobody goes over
// them again and again to find the next.
type queue struct {
	waiting list.List // of *waiter, by turn
	now     uint64    // the turn of who entered last
	groups  map[group]*turns
	aside   map[group]*list.List // of *waiter, by turn, of a namespace (without a workflow), or of a group
}

// fullTurn is what a turn counts. That of a guest that has just become slow counts 1: most such guests are done within one more
// slice, and a group of them would otherwise have too few turns.
const fullTurn = 4

// turns is of a group that has somebody waiting.
type turns struct {
	last    uint64 // the one given last
	waiting int
}

// Len returns how many wait who are not set aside.
func (q *queue) Len() int { return q.waiting.Len() }

// Front returns who is first of those who are not set aside.
func (q *queue) Front() *list.Element { return q.waiting.Front() }

// size returns how many wait.
func (q *queue) size() int {
	n := q.waiting.Len()
	for _, l := range q.aside {
		n += l.Len()
	}
	return n
}

// all returns everybody who waits, those first who are not set aside.
func (q *queue) all() (all []*waiter) {
	lists := []*list.List{&q.waiting}
	for _, of := range slices.SortedFunc(maps.Keys(q.aside), compare) {
		lists = append(lists, q.aside[of])
	}
	for _, l := range lists {
		for e := l.Front(); e != nil; e = e.Next() {
			all = append(all, waiterOf(e))
		}
	}
	return all
}

// push has somebody wait.
func (q *queue) push(w *waiter) {
	if q.groups == nil {
		q.groups = map[group]*turns{}
	}
	g := q.groups[w.place.group]
	if g == nil {
		g = &turns{}
		q.groups[w.place.group] = g
	}
	g.waiting++
	step := uint64(fullTurn)
	if w.fresh {
		step = 1
	}
	w.turn = max(g.last, q.now) + step
	g.last = w.turn
	w.e = insert(&q.waiting, w)
}

// asideOf reports whether anybody of a namespace, or of a group, is set aside.
func (q *queue) asideOf(of group) bool { return q.aside[of] != nil }

// setAside sets somebody aside who waits, because of its namespace or its group.
func (q *queue) setAside(w *waiter, of group) {
	q.waiting.Remove(w.e)
	if q.aside == nil {
		q.aside = map[group]*list.List{}
	}
	if q.aside[of] == nil {
		q.aside[of] = list.New()
	}
	w.e, w.aside = insert(q.aside[of], w), &of
}

// bring has the first one who is set aside because of its namespace, or its group, wait among the others again.
func (q *queue) bring(of group) {
	w := waiterOf(q.aside[of].Front())
	q.take(w)
	w.e = insert(&q.waiting, w)
}

// take takes somebody out of the list in which it is.
func (q *queue) take(w *waiter) {
	if w.aside == nil {
		q.waiting.Remove(w.e)
		return
	}
	if l := q.aside[*w.aside]; l.Remove(w.e) != nil && l.Len() == 0 {
		delete(q.aside, *w.aside)
	}
	w.aside = nil
}

// insert puts somebody behind all in a list whose turn is not later, from the end that is nearer by turns.
func insert(l *list.List, w *waiter) *list.Element {
	front, back := l.Front(), l.Back()
	if back == nil || waiterOf(back).turn <= w.turn {
		return l.PushBack(w)
	}
	if w.turn < waiterOf(front).turn {
		return l.PushFront(w)
	}
	if w.turn-waiterOf(front).turn < waiterOf(back).turn-w.turn {
		for e := front; ; e = e.Next() {
			if waiterOf(e).turn > w.turn {
				return l.InsertBefore(w, e)
			}
		}
	}
	for e := back; ; e = e.Prev() {
		if waiterOf(e).turn <= w.turn {
			return l.InsertAfter(w, e)
		}
	}
}

func waiterOf(e *list.Element) *waiter {
	return e.Value.(*waiter) //nolint:forcetypeassert // it holds nothing else
}

// enter has somebody no longer wait who enters.
func (q *queue) enter(w *waiter) {
	q.now = max(q.now, w.turn)
	q.remove(w)
}

// remove has somebody no longer wait.
func (q *queue) remove(w *waiter) {
	q.take(w)
	g := q.groups[w.place.group]
	g.waiting--
	if g.waiting == 0 {
		delete(q.groups, w.place.group)
	}
}
