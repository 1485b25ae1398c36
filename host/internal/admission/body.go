package admission

import "context"

// bodyShare is the part of the memory that the bodies of one group may hold which have computed for a slice. They do not give
// their instances up, as what they have done outside cannot be taken back. Beyond it, further bodies of the group wait before
// they begin, which costs no memory, and keeps nobody else waiting.
const bodyShare = 8

// EnterBody is Enter for a guest that executes a body or step function: it is outside, and Of has said whose it is. It waits
// while the bodies of its group that compute for long hold their share. One that has waited counts at once, so that of a thousand
// that wait only those begin for which there is room.
func (p *Place) EnterBody(ctx context.Context) error {
	a := p.a
	a.mu.Lock()
	for bodiesFullLocked(p) {
		changed := a.bodyEnded
		a.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if a.mu.Lock(); !bodiesFullLocked(p) {
			bodyLocked(p, true)
			break
		}
	}
	a.mu.Unlock()
	err := p.Enter(ctx, Woken, nil)
	if err != nil {
		a.mu.Lock()
		bodyLocked(p, false)
		a.mu.Unlock()
	}
	return err
}

// MayFork reports whether a body may begin in the instance that the guest has.
func (p *Place) MayFork() bool {
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	return !bodiesFullLocked(p)
}

// bodiesFullLocked reports whether bodies of the guest's group hold their share. The first one may hold any amount.
func bodiesFullLocked(p *Place) bool { return p.a.bodies[p.group] > p.a.limit/bodyShare }

// bodyLocked says whether a guest that is not outside executes a body that has computed for a slice.
func bodyLocked(p *Place, body bool) {
	if p.body == body {
		return
	}
	p.body = body
	a := p.a
	if body {
		a.bodies[p.group] += p.bytes
		return
	}
	if a.bodies[p.group] -= p.bytes; a.bodies[p.group] == 0 {
		delete(a.bodies, p.group)
	}
	close(a.bodyEnded)
	a.bodyEnded = make(chan struct{})
}
