package pebblestore

import (
	"sync"

	"github.com/wfhost/wfhost/store"
)

// heldRuns is the set of locked runs, schedules and queues of a partition. Only locks of the same key wait for each
// other. A fixed number of mutexes, shared by hash, would not do: commits hold their locks over an fsync, and two
// batches of some hundred runs almost surely share a mutex, so they would wait for each other's fsync. The zero value
// is an empty set.
type heldRuns struct {
	mu      sync.Mutex
	keys    map[store.RunKey]struct{}
	free    sync.Cond // keys were unlocked; its L is mu
	waiting int       // callers of lock that wait for free
}

// lock locks all keys once none of them is locked. While it waits it holds no key of this partition, so the keys may be
// in any order, and may repeat.
func (h *heldRuns) lock(keys ...store.RunKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.keys == nil {
		h.keys, h.free.L = map[store.RunKey]struct{}{}, &h.mu
	}
	for h.anyOf(keys) {
		h.waiting++
		h.free.Wait()
		h.waiting--
	}
	for _, k := range keys {
		h.keys[k] = struct{}{}
	}
}

func (h *heldRuns) anyOf(keys []store.RunKey) bool {
	if len(h.keys) == 0 {
		return false
	}
	for _, k := range keys {
		if _, held := h.keys[k]; held {
			return true
		}
	}
	return false
}

// unlock unlocks keys that one call of lock has locked.
func (h *heldRuns) unlock(keys ...store.RunKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range keys {
		delete(h.keys, k)
	}
	if h.waiting > 0 {
		h.free.Broadcast()
	}
}
