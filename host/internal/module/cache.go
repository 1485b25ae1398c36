package module

import (
	"context"
	"sync"

	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/store"
)

// Cache is the modules that this process has compiled, and the grants of versions that were asked for. Its methods may be
// called concurrently.
type Cache struct {
	engine engine.Engine
	store  store.Store

	mu      sync.Mutex
	loaded  map[store.Digest]*Module
	granted map[versionKey]store.Grants
}

// NewCache returns an empty cache of the modules of a store.
func NewCache(e engine.Engine, s store.Store) *Cache {
	return &Cache{engine: e, store: s, loaded: map[store.Digest]*Module{}, granted: map[versionKey]store.Grants{}}
}

// Get returns a compiled module, compiling it if this process has not. Several callers may wait for one compilation, so ctx is
// not that of one of them, but of the process.
func (c *Cache) Get(ctx context.Context, d store.Digest) (*Module, error) {
	c.mu.Lock()
	m := c.loaded[d]
	if m == nil {
		m = &Module{}
		c.loaded[d] = m
	}
	c.mu.Unlock()
	m.once.Do(func() { m.err = c.load(ctx, m, d) })
	if m.err != nil { // the next one tries again
		c.mu.Lock()
		if c.loaded[d] == m {
			delete(c.loaded, d)
		}
		c.mu.Unlock()
	}
	return m, m.err
}

func (c *Cache) load(ctx context.Context, m *Module, d store.Digest) error {
	wasm, err := c.store.Modules().Get(ctx, d)
	if err != nil {
		return err
	}
	info, err := c.store.Modules().Info(ctx, d)
	if err != nil {
		return err
	}
	if err := m.compile(ctx, c.engine, wasm); err != nil {
		return err
	}
	return m.describe(info.DescriptionJSON)
}

// Resident returns what an instance of a module holds, about, of which nothing may be known yet.
func (c *Cache) Resident(d store.Digest) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.loaded[d]; m != nil {
		return m.Resident()
	}
	return usualBytes
}

// Forget closes a module that is not needed any more.
func (c *Cache) Forget(d store.Digest) {
	c.mu.Lock()
	m := c.loaded[d]
	delete(c.loaded, d)
	c.mu.Unlock()
	if m != nil {
		m.once.Do(func() {}) // waits for a compilation that goes on
		m.close()
	}
}

// Close closes all modules. No guest runs any more.
func (c *Cache) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.loaded {
		m.close()
	}
	clear(c.loaded)
}
