package module

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/store"
)

// Limits says when modules leave memory. They do so only while they have no instance.
type Limits struct {
	// Idle is how long after its last use a module leaves memory; 0 or less keeps it.
	Idle time.Duration
	// Bytes bounds the modules in memory, about: those that were used longest ago leave it.
	Bytes int64
	// Left, if set, is called with each module that has left memory, and what it took.
	Left func(d store.Digest, bytes int64)
}

// lookEvery is how often modules and instances are looked at while there are any: an idle instance is closed after one to two
// looks. Instances of the Go guest of a busy host are used again within milliseconds, and making one takes less than one.
const lookEvery = time.Second

// manyInstances is how many instances have left for their garbage to be worth a collection, when none is left: each Go guest
// has some 300 KB on the heap. A run that wakes now and then causes none for a while, and a host that is busy none at all.
const manyInstances = 8

// Cache is the modules of which this process has had an instance, and the grants of versions that were asked for. Its methods
// may be called concurrently.
type Cache struct {
	ctx    context.Context //nolint:containedctx // of compilations, for which several callers may wait
	cancel context.CancelFunc
	engine engine.Engine
	store  store.Store
	clock  clock.Clock
	limits Limits

	mu      sync.Mutex // guards what follows; no other lock is taken while it is held
	modules map[store.Digest]*Module
	granted map[versionKey]store.Grants
	looking bool   // a look will be taken
	stop    func() // ends that; nil before the first one
	closed  bool

	looks sync.Mutex // held by the look that is being taken; guards gave
	gave  int        // instances that left since the last collection
}

// NewCache returns an empty cache of the modules of a store. The clock says how long modules are idle.
func NewCache(e engine.Engine, s store.Store, c clock.Clock, l Limits) *Cache {
	ctx, cancel := context.WithCancel(context.Background())
	return &Cache{ctx: ctx, cancel: cancel, engine: e, store: s, clock: c, limits: l, modules: map[store.Digest]*Module{},
		granted: map[versionKey]store.Grants{}}
}

// Get returns a module. The first call compiles it, or loads it from the engine's cache; others wait for that.
func (c *Cache) Get(d store.Digest) (*Module, error) {
	c.mu.Lock()
	m := c.modules[d]
	if m == nil {
		m = &Module{after: c.lookLater, load: func() (engine.Module, error) { return c.load(d) }}
		c.modules[d] = m
	}
	c.mu.Unlock()
	err := m.know(func() ([]byte, error) {
		info, err := c.store.Modules().Info(c.ctx, d)
		return info.DescriptionJSON, err
	})
	if err != nil { // the next one tries again, or one that waits already
		return nil, err
	}
	c.lookLater()
	return m, nil
}

// patience is how long GetPatiently waits before it tries again, each time: as long as a run waits after a fault of the host.
var patience = [...]time.Duration{time.Second, 8 * time.Second}

// GetPatiently is Get for an attempt of a step. That a module cannot be loaded is the machine's fault (a store that cannot be
// read, a process that gets no memory) and no failure of the step, so it tries again a few times before it returns the error.
func (c *Cache) GetPatiently(ctx context.Context, d store.Digest) (*Module, error) {
	for _, pause := range patience {
		if m, err := c.Get(d); err == nil || ctx.Err() != nil || c.ctx.Err() != nil {
			return m, err
		}
		t := c.clock.NewTimer(pause)
		select {
		case <-t.C():
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		}
	}
	return c.Get(d)
}

// load has the engine load or compile a module.
func (c *Cache) load(d store.Digest) (engine.Module, error) {
	return c.engine.Compile(c.ctx, engine.Source{Digest: d, Read: func(ctx context.Context) ([]byte, error) {
		return c.store.Modules().Get(ctx, d)
	}})
}

// Resident returns what an instance of a module holds, about, of which nothing may be known yet.
func (c *Cache) Resident(d store.Digest) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.modules[d]; m != nil {
		return m.Resident()
	}
	return usualBytes
}

// Forget closes a module that is not needed any more, when its last instance is released, and has the engine's cache drop it.
// What cannot be dropped stays there until the cache is full.
func (c *Cache) Forget(d store.Digest) {
	c.mu.Lock()
	m := c.modules[d]
	delete(c.modules, d)
	c.mu.Unlock()
	if m != nil {
		m.Close()
	}
	_ = c.engine.Forget(c.ctx, d)
}

// Cancel ends compilations, and lets none begin.
func (c *Cache) Cancel() { c.cancel() }

// Close closes all modules. No guest runs any more.
func (c *Cache) Close() {
	c.cancel()
	c.mu.Lock()
	c.closed = true
	if c.stop != nil {
		c.stop()
	}
	c.mu.Unlock()
	c.looks.Lock() // waits for one that is being taken
	defer c.looks.Unlock()
	for _, m := range c.all() {
		m.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.modules)
}

// all returns the modules.
func (c *Cache) all() map[store.Digest]*Module {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[store.Digest]*Module, len(c.modules))
	for d, m := range c.modules {
		all[d] = m
	}
	return all
}

// lookLater has somebody look after a while, if nobody is going to.
func (c *Cache) lookLater() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looking || c.closed {
		return
	}
	c.looking = true
	every := lookEvery
	if c.limits.Idle > 0 {
		every = min(every, c.limits.Idle)
	}
	c.stop = clock.AfterFunc(c.clock, every, c.look)
}

// look lets idle instances and modules go, and looks again later if there are others. While all runs of a host sleep for long,
// there are none, and nobody looks.
func (c *Cache) look() {
	c.looks.Lock()
	defer c.looks.Unlock()
	c.mu.Lock()
	c.looking = false
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return
	}
	gave, idle := c.engine.Trim(c.ctx)
	again := idle > 0
	looks := int((c.limits.Idle + lookEvery - 1) / lookEvery)
	bytes, left := int64(0), false
	all := c.all()
	for d, m := range all {
		n, gone, stays := m.look(looks)
		if gone {
			c.gone(d, n)
			left = true
		}
		if stays {
			bytes += n
			again = again || c.limits.Idle > 0
		}
	}
	for bytes > c.limits.Bytes {
		d, n, ok := unloadOldest(all)
		if !ok {
			break
		}
		c.gone(d, n)
		bytes -= n
		left = true
	}
	// wazero unmaps code when the garbage collector has seen that nothing uses it. Where guests that were many have all come to
	// rest, what they have left is garbage as well, and Go does not collect any while nothing is allocated.
	c.gave += gave
	if left || c.gave >= manyInstances && idle == 0 {
		c.gave = 0
		debug.FreeOSMemory()
	}
	if again {
		c.lookLater()
	}
}

func (c *Cache) gone(d store.Digest, bytes int64) {
	if c.limits.Left != nil {
		c.limits.Left(d, bytes)
	}
}

// look counts how often in a row the module was not used, and unloads it when that is often enough; 0 keeps it. It returns
// what the module takes, whether it has left memory, and whether it is there. A module that is just being loaded is not
// waited for.
func (m *Module) look(looks int) (bytes int64, gone, stays bool) {
	if !m.mu.TryLock() {
		return 0, false, true
	}
	defer m.mu.Unlock()
	if m.loaded == nil {
		return 0, false, false
	}
	if m.used || m.users > 0 {
		m.idle, m.used = 0, false
	} else {
		m.idle++
	}
	if looks > 0 && m.idle >= looks {
		bytes, gone = m.unloadLocked()
		return bytes, gone, !gone
	}
	return m.loaded.Bytes(), false, true
}

// unloadOldest unloads the module that was used longest ago, of those that have no instance.
func unloadOldest(all map[store.Digest]*Module) (of store.Digest, bytes int64, ok bool) {
	var oldest *Module
	most := -1
	for d, m := range all {
		if !m.mu.TryLock() {
			continue
		}
		if m.loaded != nil && m.users == 0 && m.idle > most {
			of, oldest, most = d, m, m.idle
		}
		m.mu.Unlock()
	}
	if oldest == nil {
		return of, 0, false
	}
	oldest.mu.Lock()
	defer oldest.mu.Unlock()
	bytes, ok = oldest.unloadLocked()
	return of, bytes, ok
}
