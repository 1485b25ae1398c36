package wazero

import (
	"slices"
	"sync"
)

// Pool holds idle items by key. Take returns the most recently used item of a key, which is in the processor's
// caches; Put evicts the items that were idle longest. It is safe for concurrent use. It closes nothing: it returns
// the items that its caller must close.
type Pool[K comparable, T any] struct {
	limit int64

	mu             sync.Mutex // guards all fields below; nothing is called while it is held
	bytes          int64
	things         int
	round          uint64
	newest, oldest *item[K, T]
	idle           map[K][]*item[K, T] // most recently used last
	closed         bool
}

type item[K comparable, T any] struct {
	key          K
	thing        T
	bytes        int64
	round        uint64 // of Trim, when it became idle
	newer, older *item[K, T]
}

// NewIdle returns a pool with a limit in bytes; 0 or less keeps nothing.
func NewIdle[K comparable, T any](limit int64) *Pool[K, T] {
	return &Pool[K, T]{limit: limit, idle: map[K][]*item[K, T]{}}
}

// Take removes and returns an idle item of a key. It returns false if there is none.
func (p *Pool[K, T]) Take(key K) (thing T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.idle[key]
	if len(own) == 0 {
		return thing, false
	}
	return p.removeLocked(own[len(own)-1]), true
}

// Put adds an item of the given size. It returns false if the pool does not accept the item, and the items that it
// evicted.
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

// removeLocked unlinks an item.
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

// Drop removes and returns all items of a key.
func (p *Pool[K, T]) Drop(key K) (all []T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for own := p.idle[key]; len(own) > 0; own = p.idle[key] {
		all = append(all, p.removeLocked(own[len(own)-1]))
	}
	delete(p.idle, key)
	return all
}

// Trim removes and returns the items that became idle before the previous call, and returns how many are left. Called
// at regular intervals, it leaves items idle for one to two intervals.
func (p *Pool[K, T]) Trim() (old []T, left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.oldest != nil && p.oldest.round < p.round {
		old = append(old, p.removeLocked(p.oldest))
	}
	p.round++
	return old, p.things
}

// Close removes and returns all items. The pool accepts none from then on.
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

// Len returns the number of items and their size in bytes.
func (p *Pool[K, T]) Len() (things int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.things, p.bytes
}
