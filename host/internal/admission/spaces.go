package admission

// Spaces counts the guests of each namespace that are inside or rest, and limits them. It is called while the admission is
// locked, and must not call it. A namespace whose limit was raised has more guests inside when the next one leaves.
type Spaces interface {
	// Full reports whether no more guests of a namespace may come in.
	Full(namespace uint32) bool
	// Add counts n more guests of a namespace, which may be negative.
	Add(namespace uint32, n int)
}

// By has the guests of each namespace limited. It is called before anything else, and returns the admission.
func (a *Admission) By(s Spaces) *Admission {
	a.spaces = s
	return a
}

// countLocked counts a guest that begins, or ceases, to be inside or to rest. If more of its namespace may come in, those that
// were set aside wait among the others again, one at a time of each class: each that enters brings the next.
func (p *Place) countLocked(n int) {
	a := p.a
	if a.spaces == nil {
		return
	}
	a.spaces.Add(p.group.namespace, n)
	for c := range a.waiters {
		p.nextLocked(Class(c))
	}
}

// fullLocked reports whether a guest may not come in because of others of its namespace.
func (a *Admission) fullLocked(p *Place) bool {
	return a.spaces != nil && a.spaces.Full(p.group.namespace)
}

// reasonLocked returns because of whom a guest may not come in: others of its namespace, or of its group; nil if it may.
func (p *Place) reasonLocked(c Class) *group {
	a := p.a
	switch space := p.group.space(); {
	case a.fullLocked(p) || c == Starting && a.half[space] >= spaceHalfDone*a.halfMost():
		return &space
	case c == Starting && a.half[p.group] >= a.halfMost():
		return &p.group
	}
	return nil
}

// firstLocked returns who is next in a class, nil if there is nobody. It sets those aside who may not come in because of others.
func (a *Admission) firstLocked(c Class) *waiter {
	for e := a.waiters[c].Front(); e != nil; e = a.waiters[c].Front() {
		w := waiterOf(e)
		because := w.place.reasonLocked(c)
		if because == nil {
			return w
		}
		a.waiters[c].setAside(w, *because)
		w.place.nextLocked(c)
	}
	return nil
}

// nextLocked has the next one that was set aside because of a namespace, and because of a group, wait among the others again, if
// those of a place may come in. It is called when one of them may, and when one that was brought no longer waits there.
func (p *Place) nextLocked(c Class) {
	q, space := &p.a.waiters[c], p.group.space()
	because := p.reasonLocked(c)
	if (because == nil || *because != space) && q.asideOf(space) {
		q.bring(space)
	}
	if because == nil && q.asideOf(p.group) {
		q.bring(p.group)
	}
}
