// Package warm keeps what runs can go on from without a replay, within a number of bytes. What is dropped costs a replay,
// and nothing else.
package warm

import (
	"sync"

	"github.com/wfhost/wfhost/host/internal/timers"
	"github.com/wfhost/wfhost/store"
)

const (
	// somedayMs is when a run is taken to wake that waits for something else than time: those that wake sooner go before.
	somedayMs = 10 * 60 * 1000
	// farMs is how long before its wake nothing of a run is kept: a replay in a day costs little, and the memory until then,
	// which nobody else might want, is that of a process at rest.
	farMs = 24 * 60 * 60 * 1000
	// staleMs is how long after its wake a run is kept that has not come: it has ended, or another host has it.
	staleMs = 60 * 1000
	// keptBytes is what it takes to keep something.
	keptBytes = 300
)

// Cache keeps a thing for each of some runs. Where there is no room for all of them, those stay that wake soonest.
type Cache[T any] struct {
	limit int64

	mu    sync.Mutex
	bytes int64
	kept  map[store.RunKey]kept[T]
	late  timers.Set[store.RunKey] // by the negated instant of the wake: the farthest one first
	soon  timers.Set[store.RunKey] // by the instant of the wake
}

type kept[T any] struct {
	thing T
	bytes int64
}

// New returns a cache of so many bytes; 0 keeps nothing.
func New[T any](limit int64) *Cache[T] {
	return &Cache[T]{limit: limit, kept: map[store.RunKey]kept[T]{}}
}

// Put keeps a thing of a run that takes so many bytes, in place of what was kept of it. The run wakes at an instant, 0 if
// that depends on something else than time. Of a run that wakes in more than a day nothing is kept.
func (c *Cache[T]) Put(now int64, key store.RunKey, thing T, bytes, wakesMs int64) {
	if wakesMs == 0 {
		wakesMs = now + somedayMs
	}
	bytes += keptBytes
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(key)
	if wakesMs-now > farMs {
		return
	}
	for {
		old, _, ok := c.soon.Pop(now - staleMs)
		if !ok {
			break
		}
		c.removeLocked(old)
	}
	for c.bytes+bytes > c.limit {
		due, ok := c.late.Next()
		if !ok || -due <= wakesMs { // all others wake sooner
			return
		}
		far, _, _ := c.late.Pop(due)
		c.removeLocked(far)
	}
	c.kept[key] = kept[T]{thing, bytes}
	c.bytes += bytes
	c.late.Put(key, -wakesMs)
	c.soon.Put(key, wakesMs)
}

// Take takes out what is kept of a run.
func (c *Cache[T]) Take(key store.RunKey) (thing T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.kept[key]
	c.removeLocked(key)
	return k.thing, ok
}

// Clear drops everything.
func (c *Cache[T]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.kept {
		c.removeLocked(key)
	}
}

// Bytes returns what everything takes, about, and of how many runs it is.
func (c *Cache[T]) Bytes() (bytes int64, runs int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes, len(c.kept)
}

func (c *Cache[T]) removeLocked(key store.RunKey) {
	k, ok := c.kept[key]
	if !ok {
		return
	}
	delete(c.kept, key)
	c.bytes -= k.bytes
	c.late.Remove(key)
	c.soon.Remove(key)
}
