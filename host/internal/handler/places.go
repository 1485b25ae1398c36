package handler

import (
	"container/heap"

	"github.com/wfhost/wfhost/host/internal/fairqueue"
	"github.com/wfhost/wfhost/store"
)

// If several namespaces share places, one namespace has at most 1/spaceShare of them, however long its calls take, and
// 1/keptShare is kept for namespaces that have no place. So a namespace finds a place
// although two other namespaces use all that they may.
const (
	spaceShare = 2
	keptShare  = 8
)

// places is a number of places, and the queue of the attempts that wait for one. Namespaces take turns: the next place
// goes to the namespace with the fewest places, and among equals to the namespace whose last turn is the oldest. The
// workflows of a namespace take turns too. Within a workflow, the attempt that could have begun earliest is next. The mutex
// of the Registry guards it.
type places struct {
	limit   int
	shared  func() bool // whether there are several namespaces; nil = unknown
	private bool        // it belongs to one namespace, which may have all places
	closed  bool        // nobody gets a place

	free    int
	several bool                                   // shared has returned true, or a namespace other than the default one has asked
	by      map[store.NamespaceID]*namespacePlaces // namespaces that have places or wait
	waiting namespaceHeap                          // the namespaces that wait
	turns   uint64                                 // how many turns there were
	number  uint64                                 // how many attempts have waited
	waits   int                                    // waiting attempts
	late    int                                    // places with Place.late
	busy    bool                                   // see Registry.pulse
}

// namespacePlaces is a namespace that has places, or waits for one.
type namespacePlaces struct {
	id    store.NamespaceID
	has   int
	of    map[string]*workflowQueue // workflows that wait
	lines fairqueue.Turns[*workflowQueue]
	turn  uint64 // number of its last turn
	at    int    // index in places.waiting
	waits int
}

// workflowQueue is the waiting attempts of a workflow: a heap, the next one first.
type workflowQueue struct {
	in       *namespacePlaces
	turn     fairqueue.Turn[*workflowQueue]
	workflow string
	waiters  []*waiter
}

// waiter is an attempt that waits for a place.
type waiter struct {
	askKey
	places  *handlerPlaces
	of      map[int64]*waiter // see asks
	queue   *workflowQueue    // nil while it does not wait in places
	at      int               // index in the line
	sinceMs int64             // see run.Ask
	number  uint64            // in the order in which they came
	lingers bool              // see lingering
	soon    bool              // see Registry.entered
	told    bool              // it was told that it waits
	passed  bool              // the limiter has let it pass
	tried   bool              // its run, which had brought the host down, goes on alone
	unread  bool              // it asks again when limits have been read
	own     bool              // it has a place of its handler, and waits for one of all handlers
	slot    Slot              // of a handler with limits: what it holds, or waits for if line is nil; nil if there are none
}

func newPlaces(n int, shared func() bool) *places {
	return &places{limit: n, shared: shared, free: n, by: map[store.NamespaceID]*namespacePlaces{}}
}

// enter gives an attempt a place, unless others wait before it or there is none.
func (p *places) enter(ns store.NamespaceID) bool {
	t := p.tenant(ns)
	if ok := t.waits == 0 && p.hasRoom(t); !ok {
		p.forget(t)
		return false
	}
	p.take(t)
	return true
}

func (p *places) tenant(ns store.NamespaceID) *namespacePlaces {
	t := p.by[ns]
	if t == nil {
		t = &namespacePlaces{id: ns}
		p.by[ns] = t
	}
	p.several = p.several || ns != 0
	return t
}

// wait adds an attempt to the queue.
func (p *places) wait(w *waiter, workflow string) {
	t := p.tenant(w.run.Namespace)
	l := t.of[workflow]
	if l == nil {
		l = &workflowQueue{in: t, workflow: workflow}
		if t.of == nil {
			t.of = map[string]*workflowQueue{}
		}
		t.of[l.workflow] = l
		l.turn.Group = l
		t.lines.Join(&l.turn)
	}
	p.number++
	w.queue, w.number = l, p.number
	heap.Push(l, w)
	t.waits++
	p.waits++
	if t.waits == 1 {
		p.turn(t)
		heap.Push(&p.waiting, t)
	}
}

func (l *workflowQueue) Len() int { return len(l.waiters) }

func (l *workflowQueue) Less(i, j int) bool {
	a, b := l.waiters[i], l.waiters[j]
	return a.sinceMs < b.sinceMs || a.sinceMs == b.sinceMs && a.number < b.number
}

func (l *workflowQueue) Swap(i, j int) {
	l.waiters[i], l.waiters[j] = l.waiters[j], l.waiters[i]
	l.waiters[i].at, l.waiters[j].at = i, j
}

func (l *workflowQueue) Push(w any) {
	x := w.(*waiter) //nolint:forcetypeassert // the heap holds only waiters
	x.at = len(l.waiters)
	l.waiters = append(l.waiters, x)
}

func (l *workflowQueue) Pop() any {
	last := len(l.waiters) - 1
	x := l.waiters[last]
	l.waiters[last] = nil
	l.waiters = l.waiters[:last]
	return x
}

// MaxBefore is the maximum of Waiting.Before.
const MaxBefore = 10_000

// before counts the attempts of the same workflow whose turn comes before w's, at most MaxBefore. It visits only those and their
// children in the heap.
func (w *waiter) before() (n int) {
	l := w.queue
	for look := []int{0}; len(look) > 0 && n < MaxBefore; {
		i := look[len(look)-1]
		look = look[:len(look)-1]
		if i < len(l.waiters) && l.Less(i, w.at) {
			n++
			look = append(look, 2*i+1, 2*i+2)
		}
	}
	return n
}

// giveBack returns a place of a namespace.
func (p *places) giveBack(ns store.NamespaceID) {
	t := p.by[ns]
	t.has--
	p.free++
	if t.waits > 0 {
		heap.Fix(&p.waiting, t.at)
	}
	p.forget(t)
}

// pop removes the next attempt that gets a place; nil if there is none.
func (p *places) pop() *waiter {
	if len(p.waiting) == 0 || !p.hasRoom(p.waiting[0]) { // if there is no room for the first, there is none for the rest
		return nil
	}
	t := p.waiting[0]
	turn := t.lines.First(func(*workflowQueue) bool { return true })
	t.lines.Had(turn)
	w := turn.Group.waiters[0]
	p.take(t)
	p.turn(t)
	p.withdraw(w)
	return w
}

// withdraw removes an attempt from the queue.
func (p *places) withdraw(w *waiter) {
	l := w.queue
	t := l.in
	heap.Remove(l, w.at)
	if w.queue = nil; len(l.waiters) == 0 {
		delete(t.of, l.workflow)
		t.lines.Leave(&l.turn)
	}
	t.waits--
	p.waits--
	if t.waits > 0 {
		heap.Fix(&p.waiting, t.at)
		return
	}
	heap.Remove(&p.waiting, t.at)
	p.forget(t)
}

// all returns the waiting attempts.
func (p *places) all() (list []*waiter) {
	for _, t := range p.waiting {
		for l := range t.lines.All {
			list = append(list, l.waiters...)
		}
	}
	return list
}

// hasRoom reports whether a namespace may take a place now.
func (p *places) hasRoom(t *namespacePlaces) bool {
	p.several = p.several || p.shared != nil && p.shared()
	switch {
	case p.closed:
		return false
	case p.private || !p.several || t.has == 0:
		return p.free > 0
	}
	return t.has < p.limit/spaceShare && p.free > p.limit/keptShare
}

func (p *places) take(t *namespacePlaces) {
	t.has++
	p.free--
}

func (p *places) turn(t *namespacePlaces) {
	p.turns++
	t.turn = p.turns
}

func (p *places) forget(t *namespacePlaces) {
	if t.has == 0 && t.waits == 0 {
		delete(p.by, t.id)
	}
}

// namespaceHeap is a heap of the waiting namespaces, the next one first.
type namespaceHeap []*namespacePlaces

func (l namespaceHeap) Len() int { return len(l) }

func (l namespaceHeap) Less(i, j int) bool {
	return l[i].has < l[j].has || l[i].has == l[j].has && l[i].turn < l[j].turn
}

func (l namespaceHeap) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].at, l[j].at = i, j
}

func (l *namespaceHeap) Push(t any) {
	x := t.(*namespacePlaces) //nolint:forcetypeassert // the heap holds only namespaces
	x.at = len(*l)
	*l = append(*l, x)
}

func (l *namespaceHeap) Pop() any {
	last := len(*l) - 1
	x := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	return x
}
