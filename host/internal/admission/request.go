package admission

import "container/list"

// Request is a guest that gets a goroutine when it is let in, so that thousands can wait at the cost of a few words each.
type Request struct {
	Place  *Place
	Class  Class
	Begin  func() // called once when the guest is inside; it starts a goroutine, and does not block
	Refuse func() // called once instead, when it never will be

	e *list.Element // among those that wait; nil if it does not
}

// Ask has a guest begin when there is room for it, and it is not held.
func (a *Admission) Ask(q *Request) {
	q.Place.subject.Ask(func() { a.ask(q) }, q.Refuse)
}

func (a *Admission) ask(q *Request) {
	a.mu.Lock()
	if a.mayEnterLocked(q.Place, q.Class) {
		a.enterLocked(q.Place, q.Class)
		a.makeRoomLocked() // those of later classes, which wait for memory, need more of it now
		a.mu.Unlock()
		q.Begin()
		return
	}
	q.e = a.waiters[q.Class].push(&waiter{place: q.Place, request: q})
	a.makeRoomLocked()
	a.mu.Unlock()
}

// Withdraw refuses a request that still waits for a place. It does nothing if the guest was let in, refused, or is held.
func (q *Request) Withdraw() {
	a := q.Place.a
	a.mu.Lock()
	waits := q.e != nil
	if waits {
		a.waiters[q.Class].remove(q.e)
		q.e = nil
		a.grantLocked() // it may have stood before others, for which there is room
	}
	a.mu.Unlock()
	if waits {
		q.Refuse()
	}
}

// RefuseAll refuses all requests that wait, and all guests that are held.
func (a *Admission) RefuseAll() {
	a.watch.Release()
	a.mu.Lock()
	var refused []*Request
	for c := range a.waiters {
		for e := a.waiters[c].Front(); e != nil; {
			next := e.Next()
			if q := e.Value.(*waiter).request; q != nil { //nolint:forcetypeassert // it holds nothing else
				a.waiters[c].remove(e)
				q.e = nil
				refused = append(refused, q)
			}
			e = next
		}
	}
	a.grantLocked() // to those that block
	a.mu.Unlock()
	for _, q := range refused {
		q.Refuse()
	}
}
