package postgres

import "sync"

// settings remembers what starts of runs look up: limits and versions. It is used only while this process has a lease. It forgets
// everything when the process changes a setting, and a member when it learns that another one has.
type settings struct {
	mu     sync.Mutex
	gen    uint64 // raised by each change
	values map[any]any
}

// maxSettings bounds the remembered values, each of up to some kilobytes.
const maxSettings = 4096

// forget drops all values. It is called before a change, and after it.
func (c *settings) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gen++
	c.values = nil
}

// recall returns the value of a key, or calls read for it. Errors are not remembered.
func recall[V any](s *Store, key any, read func() (V, error)) (V, error) {
	if !s.leased() {
		return read()
	}
	c := &s.settings
	c.mu.Lock()
	v, ok := c.values[key]
	gen := c.gen
	c.mu.Unlock()
	if ok {
		return v.(V), nil //nolint:forcetypeassert // the type of a key gives that of its value
	}
	value, err := read()
	if err != nil {
		return value, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gen == gen {
		if c.values == nil || len(c.values) >= maxSettings {
			c.values = map[any]any{}
		}
		c.values[key] = value
	}
	return value, nil
}

// Keys of remembered settings.
type (
	limitsKey struct {
		ns       int32
		workflow string
	}
	versionKey struct {
		ns       int32
		workflow string
		number   uint32
	}
)
