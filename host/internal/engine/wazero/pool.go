package wazero

import (
	"slices"
	"sync"
)

// Pool keeps idle things by key. The one that was used last is used next, since it is in the processor's caches; the one that
// was idle longest is given up first. It is safe for concurrent use. It closes nothing: it returns what its caller has to close.
type Pool[K comparable, T any] struct {
	limit int64

	mu             sync.Mutex // guards all that follows; nothing is called while it is held
	bytes          int64
	things         int
	round          uint64
	newest, oldest *item[K, T]
	idle           map[K][]*item[K, T] // the one used last at the end
	closed         bool
}

type item[K comparable, T any] struct {
	key          K
	thing        T
	bytes        int64
	round        uint64 // in which it became idle
	newer, older *item[K, T]
}

// NewIdle returns a pool of so many bytes; 0 or less keeps nothing.
func NewIdle[K comparable, T any](limit int64) *Pool[K, T] {
	return &Pool[K, T]{limit: limit, idle: map[K][]*item[K, T]{}}
}

// Take takes an idle thing of a key out of the pool. It reports false if there is none.
func (p *Pool[K, T]) Take(key K) (thing T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.idle[key]
	if len(own) == 0 {
		return thing, false
	}
	return p.removeLocked(own[len(own)-1]), true
}

// Put keeps a thing that takes so many bytes. It reports false if the thing is not kept, and returns those that gave way.
func (p *Pool[K, T]) Put(key K, thing T, bytes int64) (over []T, kept bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || bytes > p.limit {
		return nil, false
	}
	it := &item[K, T]{key: key, thing: thing, bytes: bytes, round: p.round, older: p.newest}
	if p.newest != nil {
		p.newest.newer = it
	} else {
		p.oldest = it
	}
	p.newest = it
	p.idle[key] = append(p.idle[key], it)
	p.bytes += bytes
	p.things++
	for p.bytes > p.limit {
		over = append(over, p.removeLocked(p.oldest))
	}
	return over, true
}

// removeLocked takes an item out of everything.
func (p *Pool[K, T]) removeLocked(it *item[K, T]) T {
	if it.newer != nil {
		it.newer.older = it.older
	} else {
		p.newest = it.older
	}
	if it.older != nil {
		it.older.newer = it.newer
	} else {
		p.oldest = it.newer
	}
	p.bytes -= it.bytes
	p.things--
	own := p.idle[it.key]
	for i := len(own) - 1; i >= 0; i-- { // mostly the last one
		if own[i] == it {
			p.idle[it.key] = slices.Delete(own, i, i+1)
			break
		}
	}
	return it.thing
}

// Drop takes all things of a key out of the pool.
func (p *Pool[K, T]) Drop(key K) (all []T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for own := p.idle[key]; len(own) > 0; own = p.idle[key] {
		all = append(all, p.removeLocked(own[len(own)-1]))
	}
	delete(p.idle, key)
	return all
}

// Trim takes out what has been idle since before the last call of Trim, and returns how many things are left. Whoever
// calls it at regular intervals keeps things for one to two of them.
func (p *Pool[K, T]) Trim() (old []T, left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.oldest != nil && p.oldest.round < p.round {
		old = append(old, p.removeLocked(p.oldest))
	}
	p.round++
	return old, p.things
}

// Close takes everything out, and keeps nothing from now on.
func (p *Pool[K, T]) Close() (all []T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for p.oldest != nil {
		all = append(all, p.removeLocked(p.oldest))
	}
	clear(p.idle)
	return all
}

// Len returns how many things there are, and what they take.
func (p *Pool[K, T]) Len() (things int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.things, p.bytes
}
