package admission

// Request is a guest without a goroutine. It gets one when it is let in, so that each of thousands of waiting guests costs
// only a few words.
type Request struct {
	Place  *Place
	Class  Class
	Begin  func() // called once when the guest is inside; it starts a goroutine and must not block
	Refuse func() // called once instead, if the request is refused

	waits *waiter // nil if the request is not in a queue
}

// Ask calls q.Begin when there is room for the guest and the watch does not hold it back.
func (a *Admission) Ask(q *Request) {
	q.Place.subject.Ask(func() { a.ask(q) }, q.Refuse)
}

func (a *Admission) ask(q *Request) {
	a.mu.Lock()
	q.Class = q.Place.classOf(q.Class)
	if a.mayEnterLocked(q.Place, q.Class) {
		a.enterLocked(q.Place, q.Class)
		a.makeRoomLocked() // lower classes that wait for memory need more of it now
		a.mu.Unlock()
		q.Begin()
		return
	}
	q.waits = &waiter{place: q.Place, request: q}
	a.waiters[q.Class].push(q.waits)
	if a.before >= maxBefore { // a Starting guest may enter now if the guests before it wait for memory
		a.grantLocked()
	}
	a.makeRoomLocked()
	if q.Class == Large {
		a.grantLargeLocked()
	}
	a.mu.Unlock()
}

// Withdraw refuses a request that still waits for a place. It does nothing if the guest was let in or refused, or if the watch
// holds it back.
func (q *Request) Withdraw() {
	a := q.Place.a
	a.mu.Lock()
	waits := q.waits != nil
	if waits {
		a.waiters[q.Class].remove(q.waits)
		q.waits = nil
		q.Place.nextLocked(q.Class)
		a.grantLocked() // there may be room for the guests behind it
	}
	a.mu.Unlock()
	if waits {
		q.Refuse()
	}
}

// RefuseAll refuses all waiting requests, and all guests that the watch holds back.
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
	a.grantLocked() // lets in goroutines that block in Enter
	a.mu.Unlock()
	for _, q := range refused {
		q.Refuse()
	}
}
