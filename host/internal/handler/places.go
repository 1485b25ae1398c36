package handler

import (
	"container/heap"

	"github.com/wfhost/wfhost/host/internal/fairqueue"
	"github.com/wfhost/wfhost/store"
)

// If several namespaces share places, one namespace gets at most 1/spaceShare of them, however long its calls take,
// and 1/keptShare is reserved for namespaces without a place. So a namespace gets a place even if two others use
// their maximum.
const (
	spaceShare = 2
	keptShare  = 8
)

// places is a number of places with a queue of waiting attempts. Namespaces take turns: the next place goes to the
// namespace with the fewest places, and among equals to the namespace whose last turn is the oldest. The workflows of
// a namespace take turns, too. Within a workflow, the attempt that could have begun earliest is next. The mutex of
// the Registry guards it.
type places struct {
	limit   int
	shared  func() bool // whether there are several namespaces; nil = unknown
	private bool        // it belongs to one namespace, which may have all places
	closed  bool        // no place is given any more

	free    int
	several bool                                   // shared has returned true, or a namespace other than the default one has asked
	by      map[store.NamespaceID]*namespacePlaces // namespaces that have places or wait
	waiting namespaceHeap                          // the waiting namespaces
	turns   uint64                                 // number of turns so far
	number  uint64                                 // number of attempts that have waited
	waits   int                                    // waiting attempts
	late    int                                    // places with Place.late
	busy    bool                                   // see Registry.pulse
	asks    *asks                                  // packs waiting attempts; nil = they are not packed
}

// namespacePlaces is a namespace that has places, or waits for one.
type namespacePlaces struct {
	id    store.NamespaceID
	has   int
	of    map[string]*workflowQueue // workflows that wait
	turns fairqueue.Turns[*workflowQueue]
	turn  uint64 // number of its last turn
	at    int    // index in places.waiting
	waits int
}

// workflowQueue has the waiting attempts of a workflow: a heap, the next one first, and packed ones.
type workflowQueue struct {
	in       *namespacePlaces
	turn     fairqueue.Turn[*workflowQueue]
	workflow string
	waiters  []*waiter
	packed   packedHeap
	packFrom int // number of waiters from which on they are packed; 0: see packedIndex.from
}

// waiter is an attempt that waits for a place.
type waiter struct {
	askKey
	turnOrder
	places  *handlerPlaces
	of      map[int64]*waiter // see asks
	queue   *workflowQueue    // nil while it does not wait in a places
	at      int               // index in the queue's heap
	lingers bool              // see lingering
	soon    bool              // see Registry.entered
	told    bool              // its run knows that it waits
	passed  bool              // the limiter has let it pass
	tried   bool              // its run, which had crashed the host, has its trial
	unread  bool              // it asks again when the limits have been read
	own     bool              // it has a place of its handler, and waits for one of the places of all handlers
	slot    Slot              // for a handler with limits: the slot that it has, or waits for if queue is nil; nil if there are none
}

func newPlaces(n int, shared func() bool) *places {
	return &places{limit: n, shared: shared, free: n, by: map[store.NamespaceID]*namespacePlaces{}}
}

// enter gives an attempt a place, unless other attempts wait or there is none.
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
	p.number++
	w.number = p.number
	p.push(w, workflow)
}

// push adds an attempt that already has a number to the queue.
func (p *places) push(w *waiter, workflow string) {
	l := p.queueOf(w.run.Namespace, workflow)
	if p.asks != nil {
		p.asks.pack(l)
	}
	w.queue = l
	heap.Push(l, w)
	p.came(l, 1)
}

// queueOf returns the queue of a workflow. If it is empty, the caller adds to it.
func (p *places) queueOf(ns store.NamespaceID, workflow string) *workflowQueue {
	t := p.tenant(ns)
	l := t.of[workflow]
	if l == nil {
		l = &workflowQueue{in: t, workflow: workflow}
		if t.of == nil {
			t.of = map[string]*workflowQueue{}
		}
		t.of[l.workflow] = l
		l.turn.Group = l
		t.turns.Join(&l.turn)
	}
	return l
}

// came counts n attempts that were added to a queue.
func (p *places) came(l *workflowQueue, n int) {
	t := l.in
	p.waits += n
	if t.waits += n; t.waits == n {
		p.turn(t)
		heap.Push(&p.waiting, t)
	}
}

// left counts n attempts that were removed from a queue.
func (p *places) left(l *workflowQueue, n int) {
	t := l.in
	if len(l.waiters)+len(l.packed) == 0 {
		delete(t.of, l.workflow)
		t.turns.Leave(&l.turn)
	}
	t.waits -= n
	p.waits -= n
	if t.waits > 0 {
		heap.Fix(&p.waiting, t.at)
		return
	}
	heap.Remove(&p.waiting, t.at)
	p.forget(t)
}

func (l *workflowQueue) Len() int { return len(l.waiters) }

func (l *workflowQueue) Less(i, j int) bool {
	return l.waiters[i].turnOrder.before(l.waiters[j].turnOrder)
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

// before counts the attempts of the queue whose turn comes before o, at most MaxBefore. Of the unpacked ones it
// visits only these and their children in the heap.
func (l *workflowQueue) before(o turnOrder) (n int) {
	for _, p := range l.packed {
		if n += p.before(o); n >= MaxBefore {
			return MaxBefore
		}
	}
	for look := []int{0}; len(look) > 0 && n < MaxBefore; {
		i := look[len(look)-1]
		look = look[:len(look)-1]
		if i < len(l.waiters) && l.waiters[i].turnOrder.before(o) {
			n++
			look = append(look, 2*i+1, 2*i+2)
		}
	}
	return min(n, MaxBefore)
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

// pop removes and returns the next attempt that gets a place; nil if there is none.
func (p *places) pop() *waiter {
	if len(p.waiting) == 0 || !p.hasRoom(p.waiting[0]) { // no room for the first means none for the rest
		return nil
	}
	t := p.waiting[0]
	turn := t.turns.First(func(*workflowQueue) bool { return true })
	t.turns.Had(turn)
	l := turn.Group
	if p.asks != nil {
		p.asks.unpackNext(l)
	}
	w := l.waiters[0]
	p.take(t)
	p.turn(t)
	p.withdraw(w)
	return w
}

// withdraw removes an attempt from the queue.
func (p *places) withdraw(w *waiter) {
	l := w.queue
	heap.Remove(l, w.at)
	w.queue = nil
	p.left(l, 1)
}

// queues returns the queues of the workflows with waiting attempts.
func (p *places) queues() (list []*workflowQueue) {
	for _, t := range p.waiting {
		for l := range t.turns.All {
			list = append(list, l)
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
