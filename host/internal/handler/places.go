package handler

import (
	"container/heap"
	"container/list"
	"context"
	"sync"

	"github.com/wfhost/wfhost/store"
)

// Where several namespaces share places, one has at most the part spaceShare of them, however long its calls take, and the part
// keptShare is kept for those that have none: so there is room for one that comes while two others have all that they may.
const (
	spaceShare = 2
	keptShare  = 8
)

// places are for calls that go on. The namespaces that wait take turns: next is the one that has the fewest places, and of those
// that have the same number the one whose turn was the longest ago. Within a namespace it is first come, first served. It is safe
// for concurrent use.
type places struct {
	limit  int
	shared func() bool // whether there are several namespaces; nil: nobody says so

	mu      sync.Mutex // guards what follows
	free    int
	several bool                          // what shared has reported, or calls of another namespace than the default one
	by      map[store.NamespaceID]*tenant // those that have places, or wait
	waiting line                          // those that wait
	turns   uint64                        // how many there were
}

// tenant is a namespace that has places, or waits for some.
type tenant struct {
	id    store.NamespaceID
	has   int
	waits list.List // of chan struct{}, which is closed when the place is there
	turn  uint64    // the last one
	at    int       // in the line
}

func newPlaces(n int, shared func() bool) *places {
	return &places{limit: n, shared: shared, free: n, by: map[store.NamespaceID]*tenant{}}
}

// enter waits for a place, which is the namespace's until leave is called. It returns the error of a context that ends before.
func (p *places) enter(ctx context.Context, ns store.NamespaceID) error {
	p.mu.Lock()
	t := p.by[ns]
	if t == nil {
		t = &tenant{id: ns}
		p.by[ns] = t
	}
	p.several = p.several || ns != 0
	if t.waits.Len() == 0 && p.roomLocked(t) { // nobody waits who might have it
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
	case <-there: // meanwhile
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
	for len(p.waiting) > 0 && p.roomLocked(p.waiting[0]) { // if there is none for who has the fewest, there is for nobody
		next := p.waiting[0]
		there := next.waits.Remove(next.waits.Front()).(chan struct{}) //nolint:forcetypeassert // it holds nothing else
		p.takeLocked(next)
		p.turnLocked(next)
		p.waitedLocked(next)
		close(there)
	}
}

// roomLocked reports whether there is a place for a namespace.
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

// waitedLocked puts a namespace where it belongs in the line after one of its calls waits no longer.
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

// line is a heap of the namespaces that wait, the next one first.
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
	x := t.(*tenant) //nolint:forcetypeassert // it holds nothing else
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
