package admission

// Rest frees the place of a guest that is inside and waits for an order, until Wake. At most as many guests rest as there are
// places; further guests stay inside, so that the number of guests stays bounded while orders are slow.
func (p *Place) Rest() {
	a := p.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.at == inside && a.resting < a.total {
		p.at = rested
		a.resting++
		p.stopLocked()
		p.slowLocked(false)
		p.bodyLocked(false)
		a.grantLocked()
	}
}

// Wake makes a resting guest compute again at once, even if all places are taken. It does nothing to a guest that does not
// rest.
func (p *Place) Wake() {
	a := p.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.at == rested {
		a.resting--
		p.insideLocked()
	}
}

// StepOut frees the place of a guest that is inside. The guest keeps its instance until it enters again, and is not evicted.
// bytes is the instance's size, 0 if it was not measured. A body that has stepped out no longer counts as having computed for a
// slice.
func (p *Place) StepOut(bytes int64) {
	a := p.a
	a.mu.Lock()
	defer a.mu.Unlock()
	p.bodyLocked(false)
	if p.at == inside && (bytes > p.bytes || p.begun && bytes > 0) {
		p.weighLocked(bytes)
		a.evictOverLocked(a.chargedLocked() - a.limit)
		a.bodies.grant() // the body may hold less than estimated
	}
	a.returnLocked(p)
	a.grantLocked()
}

// Park frees the place of a guest that is inside or rests. The guest keeps its instance until it enters again or is evicted.
// bytes is the size of the instance. Park does nothing to any other guest.
func (p *Place) Park(bytes int64) {
	a := p.a
	a.mu.Lock()
	defer a.mu.Unlock()
	switch p.at {
	case inside:
		p.stopLocked()
	case rested:
		a.resting--
	default:
		return
	}
	p.countLocked(-1)
	p.slowLocked(false)
	p.bodyLocked(false)
	p.weighLocked(bytes)
	p.at = parked
	p.e = a.parked.PushBack(p)
	a.parkedBytes += bytes
	for a.parkedBytes > a.parkLimit && a.parked.Len() > 0 {
		a.evictLocked()
	}
	a.grantLocked()
}
