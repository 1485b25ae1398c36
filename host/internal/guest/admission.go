package guest

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// admission bounds how many guests compute at a time, and what memory all of them hold. A guest has a place while it
// computes. While a commit of its run or an attempt of one of its steps goes on, it is parked: it keeps its instance, but
// no place. When parked guests hold too much, or their memory is wanted, the one that was parked longest is evicted: its
// run is replayed later.
//
// A place goes to a guest that has an instance and can go on, before one that is woken, before one that is new; within a
// class, to the one that has waited longest.
//
// mu guards all fields, and those of places, requests and their elements. While it is held, nothing is called but
// request.begin, which starts a goroutine.
type admission struct {
	mu      sync.Mutex
	free    int // places
	total   int
	held    int64              // bytes of guests that compute or are parked
	limit   int64              // of held
	waiters [classes]list.List // of *waiter

	parked      list.List // of *place, the one that was parked longest first
	parkedBytes int64
	parkLimit   int64
}

// class is the order in which guests get a place.
type class int

const (
	resuming class = iota
	woken
	starting
	classes = 3
)

// waiter is a guest that waits for a place: a goroutine that blocks until granted is closed, or a request.
type waiter struct {
	bytes   int64
	granted chan struct{}
	request *request
}

// request is a guest that gets a goroutine when it gets a place.
type request struct {
	place  *place
	begin  func() // called once when it has a place; it starts a goroutine, and does not block
	refuse func() // called instead, when there will be none

	c class
	e *list.Element // among the waiters; nil if it does not wait any more
}

// place is what a guest has of an admission: a place where it computes, room where it is parked, or nothing.
type place struct {
	a     *admission
	bytes int64         // that count for it
	evict chan struct{} // closed when the guest has to give its instance up; nil while it is not parked
	e     *list.Element // among the parked; nil if it is not, or was evicted
}

func newAdmission(places int, limit, parkLimit int64) *admission {
	return &admission{free: places, total: places, limit: limit, parkLimit: parkLimit}
}

// newPlace returns what a guest that holds about so many bytes enters with.
func (a *admission) newPlace(bytes int64) *place { return &place{a: a, bytes: bytes} }

// errDraining says that the host makes no new guests any more.
var errDraining = errors.New("the host stops")

// enter waits for a place, until ctx is done or quit, which may be nil, is closed.
func (p *place) enter(ctx context.Context, c class, quit <-chan struct{}) error {
	a := p.a
	a.mu.Lock()
	if a.none(c) && a.roomLocked(p.bytes) {
		a.free--
		a.held += p.bytes
		a.mu.Unlock()
		return nil
	}
	w := &waiter{bytes: p.bytes, granted: make(chan struct{})}
	e := a.waiters[c].PushBack(w)
	a.evictForLocked(p.bytes)
	a.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	case <-quit:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-w.granted: // at the same time
		a.leaveLocked(p.bytes)
	default:
		a.waiters[c].Remove(e)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errDraining
}

// none reports whether nobody of a class, or of one before it, waits.
func (a *admission) none(c class) bool {
	for i := range a.waiters[:c+1] {
		if a.waiters[i].Len() > 0 {
			return false
		}
	}
	return true
}

// roomLocked reports whether a guest may have a place. One has room whatever it holds, so that a guest that is larger than
// the limit is late, and not for ever.
func (a *admission) roomLocked(bytes int64) bool {
	return a.free > 0 && (a.held+bytes <= a.limit || a.free == a.total)
}

// evictForLocked evicts parked guests whose memory stands in the way of one that waits.
func (a *admission) evictForLocked(bytes int64) {
	over := a.held + bytes - a.limit
	for e := a.parked.Front(); e != nil && over > 0 && a.free > 0; e = a.parked.Front() {
		over -= e.Value.(*place).bytes //nolint:forcetypeassert // it holds nothing else
		a.evictLocked()
	}
}

// leave gives a place back.
func (p *place) leave() {
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	p.a.leaveLocked(p.bytes)
}

func (a *admission) leaveLocked(bytes int64) {
	a.free++
	a.held -= bytes
	a.grantLocked()
}

// grantLocked gives places to those that wait for one.
func (a *admission) grantLocked() {
	for c := range a.waiters {
		for e := a.waiters[c].Front(); e != nil; e = a.waiters[c].Front() {
			w := e.Value.(*waiter) //nolint:forcetypeassert // it holds nothing else
			if !a.roomLocked(w.bytes) {
				a.evictForLocked(w.bytes)
				return
			}
			a.waiters[c].Remove(e)
			a.free--
			a.held += w.bytes
			if w.request != nil {
				w.request.e = nil
				w.request.begin() // which only starts a goroutine
				continue
			}
			close(w.granted)
		}
	}
}

// ask has a guest begin when there is a place for it.
func (a *admission) ask(q *request) {
	a.mu.Lock()
	if a.none(q.c) && a.roomLocked(q.place.bytes) {
		a.free--
		a.held += q.place.bytes
		a.mu.Unlock()
		q.begin()
		return
	}
	q.e = a.waiters[q.c].PushBack(&waiter{bytes: q.place.bytes, request: q})
	a.evictForLocked(q.place.bytes)
	a.mu.Unlock()
}

// withdraw takes a request back. It reports false if the guest has a place, or was refused.
func (a *admission) withdraw(q *request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q.e == nil {
		return false
	}
	a.waiters[q.c].Remove(q.e)
	q.e = nil
	return true
}

// refuseAll refuses all requests that wait.
func (a *admission) refuseAll() {
	a.mu.Lock()
	var refused []*request
	for c := range a.waiters {
		for e := a.waiters[c].Front(); e != nil; {
			next := e.Next()
			if q := e.Value.(*waiter).request; q != nil { //nolint:forcetypeassert // it holds nothing else
				a.waiters[c].Remove(e)
				q.e = nil
				refused = append(refused, q)
			}
			e = next
		}
	}
	a.mu.Unlock()
	for _, q := range refused {
		q.refuse()
	}
}

// park gives the place of a guest back, which keeps its instance of so many bytes.
func (p *place) park(bytes int64) {
	a := p.a
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held += bytes - p.bytes
	p.bytes = bytes
	a.free++
	p.evict = make(chan struct{})
	p.e = a.parked.PushBack(p)
	a.parkedBytes += bytes
	for a.parkedBytes > a.parkLimit && a.parked.Len() > 0 {
		a.evictLocked()
	}
	a.grantLocked()
}

// unpark ends the parking of a guest, which has given its instance up, or enters again. Twice is legal.
func (p *place) unpark() {
	a := p.a
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unparkLocked(p)
	if p.evict != nil {
		p.evict = nil
		a.held -= p.bytes
		a.grantLocked()
	}
}

func (a *admission) unparkLocked(p *place) {
	if p.e != nil {
		a.parked.Remove(p.e)
		a.parkedBytes -= p.bytes
		p.e = nil
	}
}

// evictLocked asks the guest that was parked longest to give its instance up. Its memory counts until it has.
func (a *admission) evictLocked() {
	p := a.parked.Front().Value.(*place) //nolint:forcetypeassert // it holds nothing else
	a.unparkLocked(p)
	close(p.evict)
}

// evictAll evicts every parked guest.
func (a *admission) evictAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.parked.Len() > 0 {
		a.evictLocked()
	}
}

// instances returns the number of instances that compute or are parked.
func (a *admission) instances() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total - a.free + a.parked.Len()
}
