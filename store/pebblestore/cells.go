package pebblestore

import (
	"bytes"
	"sync"
)

// cellBytes bounds the single cells that are remembered: with each start, that of its workflow's window is read, which few have.
const cellBytes = 256 << 10

// cellOverhead is about what a remembered cell takes beside key and value.
const cellOverhead = 96

// cells remembers cells that were read one by one, and those that are not there, by their keys. It agrees with the database:
// a cell is noted under the lock of its queue, and a commit that changes it forgets it under the same lock, which it holds until
// it is durable. When it is full, all is forgotten.
type cells struct {
	mu    sync.Mutex
	of    map[string][]byte // nil: the cell is not there
	bytes int
}

// get returns the value of a cell, nil if it is not there; false if that is not known. The value must not be changed.
func (c *cells) get(key []byte) (value []byte, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, known = c.of[string(key)]
	return value, known
}

// note remembers a cell.
func (c *cells) note(key, value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.of[string(key)]; known { // others have waited for the queue, too
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
