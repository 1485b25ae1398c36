package wazero

import (
	"container/list"
	"context"
	"sync"
)

// defaultPoolBytes keeps more instances than there are activations at a time, and is little beside their limit.
const defaultPoolBytes = 128 << 20

// pool keeps idle instances, whose memory and globals are those of their images. The one that was used last is
// used next, since its memory is in the processor's caches; the one that was idle longest is closed first.
type pool struct {
	mu     sync.Mutex
	limit  int64
	bytes  int64
	lru    list.List // of *instance, the one used last at the front
	idle   map[*module][]*list.Element
	closed bool
}

// take gives an idle instance of a module, nil if there is none.
func (p *pool) take(m *module) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.idle[m]
	if len(idle) == 0 {
		return nil
	}
	e := idle[len(idle)-1]
	p.idle[m] = idle[:len(idle)-1]
	in := p.lru.Remove(e).(*instance) //nolint:forcetypeassert // it holds nothing else
	p.bytes -= in.kept
	return in
}

// put keeps an instance, false if it is not to be kept. What is over the limit is closed.
func (p *pool) put(ctx context.Context, in *instance) bool {
	p.mu.Lock()
	if in.m.closed.Load() || p.closed || in.kept > p.limit { // a module that is closed later drops it
		p.mu.Unlock()
		return false
	}
	if p.idle == nil {
		p.idle = map[*module][]*list.Element{}
	}
	p.idle[in.m] = append(p.idle[in.m], p.lru.PushFront(in))
	p.bytes += in.kept
	var over []*instance
	for p.bytes > p.limit {
		over = append(over, p.removeLocked(p.lru.Back()))
	}
	p.mu.Unlock()
	for _, in := range over {
		in.close(ctx)
	}
	return true
}

// removeLocked takes an element out of everything.
func (p *pool) removeLocked(e *list.Element) *instance {
	in := p.lru.Remove(e).(*instance) //nolint:forcetypeassert // it holds nothing else
	p.bytes -= in.kept
	idle := p.idle[in.m]
	for i := range idle {
		if idle[i] == e {
			p.idle[in.m] = append(idle[:i], idle[i+1:]...)
			break
		}
	}
	return in
}

// drop closes the idle instances of a module.
func (p *pool) drop(ctx context.Context, m *module) {
	for in := p.take(m); in != nil; in = p.take(m) {
		in.close(ctx)
	}
	p.mu.Lock()
	delete(p.idle, m)
	p.mu.Unlock()
}

// close closes everything, and keeps nothing from now on.
func (p *pool) close(ctx context.Context) {
	p.mu.Lock()
	p.closed = true
	var all []*instance
	for p.lru.Len() > 0 {
		all = append(all, p.removeLocked(p.lru.Back()))
	}
	p.mu.Unlock()
	for _, in := range all {
		in.close(ctx)
	}
}
