package admission

// Request is a guest that gets a goroutine when it is let in, so that thousands can wait at the cost of a few words each.
type Request struct {
	Place  *Place
	Class  Class
	Begin  func() // called once when the guest is inside; it starts a goroutine, and does not block
	Refuse func() // called once instead, when it never will be

	waits *waiter // nil if it does not wait
}

// Ask has a guest begin when there is room for it, and it is not held.
func (a *Admission) Ask(q *Request) {
	q.Place.subject.Ask(func() { a.ask(q) }, q.Refuse)
}

func (a *Admission) ask(q *Request) {
	a.mu.Lock()
	q.Class = q.Place.classOf(q.Class)
	if a.mayEnterLocked(q.Place, q.Class) {
		a.enterLocked(q.Place, q.Class)
		a.makeRoomLocked() // those of later classes, which wait for memory, need more of it now
		a.mu.Unlock()
		q.Begin()
		return
	}
	q.waits = &waiter{place: q.Place, request: q}
	a.waiters[q.Class].push(q.waits)
	if a.before >= maxBefore { // those before one that is new may wait for memory
		a.grantLocked()
	}
	a.makeRoomLocked()
	if q.Class == Large {
		a.grantLargeLocked()
	}
	a.mu.Unlock()
}

// Withdraw refuses a request that still waits for a place. It does nothing if the guest was let in, refused, or is held.
func (q *Request) Withdraw() {
	a := q.Place.a
	a.mu.Lock()
	waits := q.waits != nil
	if waits {
		a.waiters[q.Class].remove(q.waits)
		q.waits = nil
		q.Place.nextLocked(q.Class)
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
		for _, w := range a.waiters[c].all() {
			if q := w.request; q != nil {
				a.waiters[c].remove(w)
				w.place.nextLocked(Class(c))
				q.waits = nil
				refused = append(refused, q)
			}
		}
	}
	a.grantLocked() // to those that block
	a.mu.Unlock()
	for _, q := range refused {
		q.Refuse()
	}
}
