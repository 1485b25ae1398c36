package guest

import (
	"sync"

	"github.com/wfhost/wfhost/host/internal/timers"
	"github.com/wfhost/wfhost/store"
)

const (
	// somedayMs is the assumed time to the wake of a run that does not wait for time. Runs that wake later are
	// evicted first.
	somedayMs = 10 * 60 * 1000
	// queuedShare: runs that wait for places of attempts are evicted first, and have at most 1/queuedShare of the cache. A million
	// of them may wait for a service that is down; the first ones to continue then have a snapshot.
	queuedShare = 4
	// farMs is the longest time to a wake for which an entry is cached: a replay per day costs little, and without
	// pressure on the cache an entry would stay until then in the memory of an idle process.
	farMs = 24 * 60 * 60 * 1000
	// staleMs is how long after its wake an entry stays if the run did not take it: the run has ended, or another
	// host has it.
	staleMs = 60 * 1000
	// keptBytes is the overhead of an entry.
	keptBytes = 370
)

// snapshotCache holds at most one snapshot per run, within a limit in bytes. A run with a snapshot continues without a replay; an
// evicted snapshot costs a replay and nothing else. If the cache is full, it evicts the runs that wake last.
type snapshotCache[T any] struct {
	limit int64

	mu    sync.Mutex
	bytes int64
	kept  map[store.RunKey]cached[T]
	late  timers.Set[store.RunKey] // by the negated time of the wake: the last one first
	soon  timers.Set[store.RunKey] // by the time of the wake
}

type cached[T any] struct {
	thing T
	bytes int64
}

// newSnapshotCache returns a cache with a limit in bytes; 0 keeps nothing.
func newSnapshotCache[T any](limit int64) *snapshotCache[T] {
	return &snapshotCache[T]{limit: limit, kept: map[store.RunKey]cached[T]{}}
}

// Put replaces the entry of a run by a thing of the given size. wakesMs is when the run wakes; 0 means that the run
// does not wait for time. If the run wakes more than a day from now, nothing is kept. queues means that the run waits for places
// of attempts.
func (c *snapshotCache[T]) Put(now int64, key store.RunKey, thing T, bytes, wakesMs int64, queues bool) {
	someday := now + somedayMs
	if wakesMs == 0 {
		wakesMs = someday
	}
	bytes += keptBytes
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(key)
	switch {
	case wakesMs-now > farMs:
		return
	case queues && wakesMs >= someday:
		if c.bytes+bytes > c.limit/queuedShare {
			return
		}
		wakesMs = now + farMs
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
		if !ok || -due <= wakesMs { // all entries wake sooner
			return
		}
		far, _, _ := c.late.Pop(due)
		c.removeLocked(far)
	}
	c.kept[key] = cached[T]{thing, bytes}
	c.bytes += bytes
	c.late.Put(key, -wakesMs)
	c.soon.Put(key, wakesMs)
}

// Take removes and returns the entry of a run.
func (c *snapshotCache[T]) Take(key store.RunKey) (thing T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.kept[key]
	c.removeLocked(key)
	return k.thing, ok
}

// Clear removes everything.
func (c *snapshotCache[T]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.kept {
		c.removeLocked(key)
	}
}

// Bytes estimates the size of all entries, and returns their number.
func (c *snapshotCache[T]) Bytes() (bytes int64, runs int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes, len(c.kept)
}

func (c *snapshotCache[T]) removeLocked(key store.RunKey) {
	k, ok := c.kept[key]
	if !ok {
		return
	}
	delete(c.kept, key)
	c.bytes -= k.bytes
	c.late.Remove(key)
	c.soon.Remove(key)
}
