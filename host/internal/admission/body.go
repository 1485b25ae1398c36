package admission

import "context"

// bodyShare is the part of the memory that the bodies of one group may hold which have computed for a slice. They do not give
// their instances up, as what they have done outside cannot be taken back. Beyond it, further bodies of the group wait before
// they begin, which costs no memory, and keeps nobody else waiting.
const bodyShare = 8

// EnterBody is Enter for a guest that executes a body or step function: it is outside, and Of has said whose it is. It waits
// until the body may begin. It counts then at once, so that of a thousand that wait only those begin for which there is room.
func (p *Place) EnterBody(ctx context.Context) error {
	if err := admitted(ctx, p); err != nil { // before it takes room, of which it makes no use while it is held
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

// BeginBody has a guest that is inside execute a body until EndBody. It reports false if the body has to wait, which it is not to
// do with the instance.
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

// EndBody says that a guest executes no body any more. Twice is legal.
func (p *Place) EndBody() {
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	p.endBodyLocked()
}

// beginLocked has a body begin, or returns what waits until it may.
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

// bodyLocked says whether a guest executes a body that has computed for a slice.
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

// tallyLocked has the bytes of a guest that is not outside count, or, with a sign of -1, no more.
func (p *Place) tallyLocked(sign int64) {
	a := p.a
	a.held += sign * p.bytes
	if p.begun {
		a.ofBodies += sign * p.bytes
	} else {
		a.large += sign * large(p.bytes)
	}
}

// chargedLocked returns what guests hold of the limit. What bodies have come to hold beyond their share since they began does
// not count: nobody can have it back, and others would wait for days.
func (a *Admission) chargedLocked() int64 { return a.held - max(a.ofBodies-a.bodies.share, 0) }

// leftLocked returns what bodies leave of the limit.
func (a *Admission) leftLocked() int64 { return a.limit - min(a.ofBodies, a.bodies.share) }
