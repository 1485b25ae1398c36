package admission

// Rest has a guest that is inside wait to be told what to do: somebody else may compute until it is woken. As many rest at a
// time as there are places; others stay inside, so that no more and more guests come in while nobody is told.
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

// Wake has a guest compute again that rests, though all places may be taken by now: what is to go on at once has no queue
// before it. Wherever else the guest stands, it stays.
func (p *Place) Wake() {
	a := p.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.at == rested {
		a.resting--
		p.insideLocked()
	}
}

// Aside has a guest that is inside keep its instance, of so many bytes (0: nobody has looked), without a place until it enters
// again. Nobody asks for the instance. A body that waits for a server is none that computes for long.
func (p *Place) Aside(bytes int64) {
	a := p.a
	a.mu.Lock()
	defer a.mu.Unlock()
	p.bodyLocked(false)
	if p.at == inside && (bytes > p.bytes || p.begun && bytes > 0) {
		p.weighLocked(bytes)
		a.evictOverLocked(a.chargedLocked() - a.limit)
		a.bodies.grant() // it may hold less than was expected of it
	}
	a.returnLocked(p)
	a.grantLocked()
}

// Park has a guest that is inside or rests keep its instance, of so many bytes, while somebody else computes. One that has
// left meanwhile stays outside.
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
