package pebblestore

import (
	"bytes"
	"sync"
)

// cellBytes bounds the remembered cells. Each start reads the cell of its workflow's start window, which few workflows
// have.
const cellBytes = 256 << 10

// cellOverhead is the approximate size of a remembered cell besides key and value.
const cellOverhead = 96

// cells caches cells that were read one by one, including absent ones, by their keys. It agrees with the database: a
// cell is cached under the lock of its queue. A commit that changes the cell removes it from the cache under the same
// lock, and holds the lock until the commit is durable. When the cache is full, it is cleared.
type cells struct {
	mu    sync.Mutex
	of    map[string][]byte // nil: the cell does not exist
	bytes int
}

// get returns the value of a cell, nil if it does not exist, and false if it is not cached. The value must not be
// changed.
func (c *cells) get(key []byte) (value []byte, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, known = c.of[string(key)]
	return value, known
}

// remember caches a cell.
func (c *cells) remember(key, value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.of[string(key)]; known { // another caller cached it while this one waited for the queue
		return
	}
	if c.of == nil || c.bytes > cellBytes {
		c.of, c.bytes = map[string][]byte{}, 0
	}
	c.of[string(key)] = bytes.Clone(value)
	c.bytes += len(key) + len(value) + cellOverhead
}

// forget forgets a cell that is about to be changed.
func (c *cells) forget(key []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if value, known := c.of[string(key)]; known {
		c.bytes -= len(key) + len(value) + cellOverhead
		delete(c.of, string(key))
	}
}
