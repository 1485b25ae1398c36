package handler

import (
	"container/heap"
	"container/list"
	"context"
	"sync"

	"github.com/wfhost/wfhost/store"
)

// If several namespaces share places, one namespace has at most 1/spaceShare of them, however long its calls take, and
// 1/keptShare is kept for namespaces that have no place. So a namespace finds room
// although two other namespaces use all that they may.
const (
	spaceShare = 2
	keptShare  = 8
)

// places limits the calls in flight. Waiting namespaces take turns: the next place goes to the namespace with the
// fewest places, and among equals to the namespace whose last turn is the oldest. Within a namespace it is first come,
// first served. It is safe for concurrent use.
type places struct {
	limit  int
	shared func() bool // whether there are several namespaces; nil = unknown

	mu      sync.Mutex // guards the fields below
	free    int
	several bool                          // shared has returned true, or a namespace other than the default one has called
	by      map[store.NamespaceID]*tenant // namespaces that have places or wait
	waiting line                          // the namespaces that wait
	turns   uint64                        // how many turns there were
}

// tenant is a namespace that has places, or waits for one.
type tenant struct {
	id    store.NamespaceID
	has   int
	waits list.List // of chan struct{}, closed when the place is granted
	turn  uint64    // number of its last turn
	at    int       // index in places.waiting
}

func newPlaces(n int, shared func() bool) *places {
	return &places{limit: n, shared: shared, free: n, by: map[store.NamespaceID]*tenant{}}
}

// enter waits for a place, which the namespace holds until leave is called. It returns the error of ctx if that ends first.
func (p *places) enter(ctx context.Context, ns store.NamespaceID) error {
	p.mu.Lock()
	t := p.by[ns]
	if t == nil {
		t = &tenant{id: ns}
		p.by[ns] = t
	}
	p.several = p.several || ns != 0
	if t.waits.Len() == 0 && p.roomLocked(t) { // no waiting call precedes it
		p.takeLocked(t)
		p.mu.Unlock()
		return nil
	}
	there := make(chan struct{})
	e := t.waits.PushBack(there)
	if t.waits.Len() == 1 {
		p.turnLocked(t)
		heap.Push(&p.waiting, t)
	}
	p.mu.Unlock()
	select {
	case <-there:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-there: // granted meanwhile
		p.leaveLocked(t)
	default:
		t.waits.Remove(e)
		p.waitedLocked(t)
	}
	return ctx.Err()
}

// leave returns a place of a namespace.
func (p *places) leave(ns store.NamespaceID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaveLocked(p.by[ns])
}

func (p *places) leaveLocked(t *tenant) {
	t.has--
	p.free++
	if t.waits.Len() > 0 {
		heap.Fix(&p.waiting, t.at)
	}
	p.forgetLocked(t)
	for len(p.waiting) > 0 && p.roomLocked(p.waiting[0]) { // if there is no room for the first, there is none for the rest
		next := p.waiting[0]
		there := next.waits.Remove(next.waits.Front()).(chan struct{}) //nolint:forcetypeassert // the list holds only channels
		p.takeLocked(next)
		p.turnLocked(next)
		p.waitedLocked(next)
		close(there)
	}
}

// roomLocked reports whether a namespace may take a place now.
func (p *places) roomLocked(t *tenant) bool {
	p.several = p.several || p.shared != nil && p.shared()
	if !p.several || t.has == 0 {
		return p.free > 0
	}
	return t.has < p.limit/spaceShare && p.free > p.limit/keptShare
}

func (p *places) takeLocked(t *tenant) {
	t.has++
	p.free--
}

func (p *places) turnLocked(t *tenant) {
	p.turns++
	t.turn = p.turns
}

// waitedLocked moves a namespace to its position in the heap, or removes it, after one of its calls has stopped waiting.
func (p *places) waitedLocked(t *tenant) {
	if t.waits.Len() > 0 {
		heap.Fix(&p.waiting, t.at)
		return
	}
	heap.Remove(&p.waiting, t.at)
	p.forgetLocked(t)
}

func (p *places) forgetLocked(t *tenant) {
	if t.has == 0 && t.waits.Len() == 0 {
		delete(p.by, t.id)
	}
}

// line is a heap of the waiting namespaces, the next one first.
type line []*tenant

func (l line) Len() int { return len(l) }

func (l line) Less(i, j int) bool {
	return l[i].has < l[j].has || l[i].has == l[j].has && l[i].turn < l[j].turn
}

func (l line) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].at, l[j].at = i, j
}

func (l *line) Push(t any) {
	x := t.(*tenant) //nolint:forcetypeassert // the heap holds only tenants
	x.at = len(*l)
	*l = append(*l, x)
}

func (l *line) Pop() any {
	last := len(*l) - 1
	x := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	return x
}
