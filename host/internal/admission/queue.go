package admission

import (
	"container/list"
	"maps"
	"slices"
)

// queue holds the waiting guests of a class. It is start-time fair queueing (P. Goyal, H. Vin and H. Cheng, 1996) for guests
// of equal size. Each waiter gets a turn, which is a number: the last turn of its group, or the turn of the guest that entered
// last if that is higher, plus an increment. The lowest turn enters first; equal turns enter in the order of arrival. So each
// further waiter of a group has a later turn, and the first waiter of another group waits for at most one guest of each group.
//
// Waiters that cannot enter because of other guests of their namespace or group are blocked: they wait in lists of their own, so
// that the search for the next guest does not pass them again and again.
type queue struct {
	waiting list.List // of *waiter, by turn
	now     uint64    // the turn of the guest that entered last
	groups  map[group]*turns
	blocked map[group]*list.List // of *waiter, by turn; the key is the namespace or group because of which they wait
}

// fullTurn is the increment of a turn. For a guest that has just become slow it is 1: most such guests finish within one more
// slice, and a group of them would otherwise get too few turns.
const fullTurn = 4

// turns holds the turns of a group with waiting guests.
type turns struct {
	last    uint64 // the turn given last
	waiting int
}

// Len returns the number of waiters that are not blocked.
func (q *queue) Len() int { return q.waiting.Len() }

// Front returns the first waiter that is not blocked.
func (q *queue) Front() *list.Element { return q.waiting.Front() }

// size returns the number of all waiters.
func (q *queue) size() int {
	n := q.waiting.Len()
	for _, l := range q.blocked {
		n += l.Len()
	}
	return n
}

// all returns all waiters. Blocked waiters come last.
func (q *queue) all() (all []*waiter) {
	lists := []*list.List{&q.waiting}
	for _, of := range slices.SortedFunc(maps.Keys(q.blocked), compare) {
		lists = append(lists, q.blocked[of])
	}
	for _, l := range lists {
		for e := l.Front(); e != nil; e = e.Next() {
			all = append(all, waiterOf(e))
		}
	}
	return all
}

// push adds a waiter and gives it a turn.
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
	increment := uint64(fullTurn)
	if w.fresh {
		increment = 1
	}
	w.turn = max(g.last, q.now) + increment
	g.last = w.turn
	w.e = insert(&q.waiting, w)
}

// blocks reports whether a waiter is blocked because of a namespace or group.
func (q *queue) blocks(of group) bool { return q.blocked[of] != nil }

// block blocks a waiter because of its namespace or group.
func (q *queue) block(w *waiter, of group) {
	q.waiting.Remove(w.e)
	if q.blocked == nil {
		q.blocked = map[group]*list.List{}
	}
	if q.blocked[of] == nil {
		q.blocked[of] = list.New()
	}
	w.e, w.blockedBy = insert(q.blocked[of], w), &of
}

// bring moves the first waiter that is blocked because of a namespace or group back to waiting. There must be one.
func (q *queue) bring(of group) {
	w := waiterOf(q.blocked[of].Front())
	q.take(w)
	w.e = insert(&q.waiting, w)
}

// take removes a waiter from its list.
func (q *queue) take(w *waiter) {
	if w.blockedBy == nil {
		q.waiting.Remove(w.e)
		return
	}
	if l := q.blocked[*w.blockedBy]; l.Remove(w.e) != nil && l.Len() == 0 {
		delete(q.blocked, *w.blockedBy)
	}
	w.blockedBy = nil
}

// insert inserts a waiter behind all waiters with the same or a lower turn. It searches from the end whose turn is nearer.
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
	return e.Value.(*waiter) //nolint:forcetypeassert // the lists hold only *waiter
}

// enter removes a waiter that enters, and advances now to its turn.
func (q *queue) enter(w *waiter) {
	q.now = max(q.now, w.turn)
	q.remove(w)
}

// remove removes a waiter.
func (q *queue) remove(w *waiter) {
	q.take(w)
	g := q.groups[w.place.group]
	g.waiting--
	if g.waiting == 0 {
		delete(q.groups, w.place.group)
	}
}
