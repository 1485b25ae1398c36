package admission

// Quotas counts and limits the guests of each namespace that are inside or rest. Its methods are called while Admission.mu is
// held and must not call the admission. When a limit is raised, the effect begins when the next guest of the namespace
// leaves.
type Quotas interface {
	// Full reports whether a namespace has reached its limit.
	Full(namespace uint32) bool
	// Add adds n, which may be negative, to the guests of a namespace.
	Add(namespace uint32, n int)
}

// By sets the limits of namespaces and returns the admission. It must be called before all other methods.
func (a *Admission) By(q Quotas) *Admission {
	a.quotas = q
	return a
}

// countLocked adds n, 1 or -1, to the guests of the namespace that are inside or rest. If the namespace may have more, it
// unblocks one waiter of each class. Each waiter that enters unblocks the next.
func (p *Place) countLocked(n int) {
	a := p.a
	if a.quotas == nil {
		return
	}
	a.quotas.Add(p.group.namespace, n)
	for c := range a.waiters {
		p.nextLocked(Class(c))
	}
}

// fullLocked reports whether the guest's namespace has reached its limit.
func (a *Admission) fullLocked(p *Place) bool {
	return a.quotas != nil && a.quotas.Full(p.group.namespace)
}

// reasonLocked returns the namespace or group whose limits keep the guest from entering, false if none do.
func (p *Place) reasonLocked(c Class) (because group, some bool) {
	a := p.a
	switch ns := p.group.ofNamespace(); {
	case a.fullLocked(p) || c == Starting && a.half[ns] >= namespaceHalfDone*a.halfMost():
		return ns, true
	case c == Starting && a.half[p.group] >= a.halfMost():
		return p.group, true
	}
	return group{}, false
}

// keptOutLocked reports whether the limits of its namespace or group keep the guest from entering.
func (p *Place) keptOutLocked(c Class) bool {
	_, some := p.reasonLocked(c)
	return some
}

// firstLocked returns the next waiter of a class, nil if there is none. It blocks the waiters that the limits of their
// namespace or group keep from entering.
func (a *Admission) firstLocked(c Class) *waiter {
	for e := a.waiters[c].Front(); e != nil; e = a.waiters[c].Front() {
		w := waiterOf(e)
		because, some := w.place.reasonLocked(c)
		if !some {
			return w
		}
		a.waiters[c].block(w, because)
		w.place.nextLocked(c)
	}
	return nil
}

// nextLocked brings back the next waiter that is blocked because of p's namespace, and the next because of p's group, if
// their limits allow. It must be called when a limit may have become free, and when a waiter that was brought back leaves the
// queue.
func (p *Place) nextLocked(c Class) {
	q, ns := &p.a.waiters[c], p.group.ofNamespace()
	because, some := p.reasonLocked(c)
	if (!some || because != ns) && q.blocks(ns) {
		q.bring(ns)
	}
	if !some && q.blocks(p.group) {
		q.bring(p.group)
	}
}
