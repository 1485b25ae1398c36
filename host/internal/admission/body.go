package admission

import "context"

// bodyShare is the divisor of the part of the memory that bodies of one group may hold after they have computed for a slice.
// They do not give their instances up, because their effects outside cannot be undone. Above the share, further bodies of the
// group wait before they begin, which costs no memory and delays no other group.
const bodyShare = 8

// EnterBody is Enter for a guest that executes a body or step function. The guest must be outside, and Of must have been
// called. EnterBody first blocks until the body may begin. From then on the body's bytes are charged, before it has entered,
// so that only as many bodies begin as there is room for.
func (p *Place) EnterBody(ctx context.Context) error {
	if err := admitted(ctx, p); err != nil { // first, because a body held by the watch must not take room
		return err
	}
	a := p.a
	a.mu.Lock()
	w := p.beginLocked()
	a.mu.Unlock()
	if w != nil {
		select {
		case <-w.granted:
		case <-ctx.Done():
			a.mu.Lock()
			a.bodies.withdraw(w)
			p.endBodyLocked()
			a.mu.Unlock()
			return context.Cause(ctx)
		}
	}
	err := p.Enter(ctx, Woken, nil)
	if err != nil {
		p.EndBody()
	}
	return err
}

// BeginBody marks a guest that is inside as executing a body until EndBody. It returns false, without marking the guest, if
// the body would have to wait: it must not wait with an instance.
func (p *Place) BeginBody() bool {
	a := p.a
	a.mu.Lock()
	defer a.mu.Unlock()
	w := p.beginLocked()
	if w != nil {
		a.bodies.withdraw(w)
	}
	return w == nil
}

// MayBeginBody reports whether BeginBody would let the guest's body begin now.
func (p *Place) MayBeginBody() bool {
	b := &p.a.bodies
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	if len(b.waiting.groups) == 0 {
		return b.verdict(p) <= beginsFirst
	}
	if w := p.beginLocked(); w != nil { // it would overtake no other body
		b.withdraw(w)
		return false
	}
	p.endBodyLocked()
	return true
}

// EndBody marks a guest as executing no body. It is idempotent.
func (p *Place) EndBody() {
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	p.endBodyLocked()
}

// beginLocked lets a body begin and returns nil, or queues it and returns its waiter.
func (p *Place) beginLocked() *waiter {
	b := &p.a.bodies
	if v := b.verdict(p); len(b.waiting.groups) == 0 && v <= beginsFirst {
		b.set(p, true, v == beginsFirst)
		return nil
	}
	w := &waiter{place: p, granted: make(chan struct{})}
	if b.push(w); p.begun {
		return nil
	}
	return w
}

func (p *Place) endBodyLocked() {
	if p.begun {
		p.a.bodies.set(p, false, false)
		p.a.bodies.grant()
	}
	p.bodyLocked(false)
}

// bodyLocked sets whether a guest executes a body that has computed for a slice.
func (p *Place) bodyLocked(body bool) {
	if p.body == body {
		return
	}
	p.body = body
	if body {
		addLocked(p.a.bodies.long, p.group, p.bytes)
	} else {
		addLocked(p.a.bodies.long, p.group, -p.bytes)
		p.a.bodies.grant()
	}
}

// tallyLocked adds the bytes of a guest that is not outside to the totals, or subtracts them if sign is -1.
func (p *Place) tallyLocked(sign int64) {
	a := p.a
	a.held += sign * p.bytes
	if p.begun {
		a.ofBodies += sign * p.bytes
	} else {
		a.large += sign * large(p.bytes)
	}
}

// chargedLocked returns the bytes that count against the limit. If bodies have grown beyond their share, the excess does not
// count: it cannot be reclaimed, and other guests would wait for it for days.
func (a *Admission) chargedLocked() int64 { return a.held - max(a.ofBodies-a.bodies.share, 0) }

// leftLocked returns the part of the limit that bodies do not use.
func (a *Admission) leftLocked() int64 { return a.limit - min(a.ofBodies, a.bodies.share) }
