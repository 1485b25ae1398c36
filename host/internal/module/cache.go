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

// Limits says when modules are unloaded from memory. A module that has an instance is never unloaded.
type Limits struct {
	// Idle is how long after its last use a module is unloaded; 0 or less disables this.
	Idle time.Duration
	// Bytes is the approximate memory limit of all modules. Above it, the least recently used modules are unloaded.
	Bytes int64
	// Left, if set, is called with each unloaded module and the bytes that it took.
	Left func(d store.Digest, bytes int64)
}

// sweepEvery is the interval of the sweeps over modules and instances. No sweep is scheduled while there are none. An
// idle instance is closed after one to two sweeps. On a busy host, instances of a Go guest are reused within
// milliseconds, and making one takes less than a millisecond.
const sweepEvery = time.Second

// manyInstances is the number of closed instances that justifies a garbage collection once no idle instance is left.
// Each Go guest has some 300 KB on the heap. A run that wakes now and then rarely triggers a collection, and a busy
// host never does.
const manyInstances = 8

// Cache holds the modules that this process has used, and the grants of versions that were requested. It is safe for
// concurrent use.
type Cache struct {
	ctx    context.Context //nolint:containedctx // for compilations, which several callers may wait for
	cancel context.CancelFunc
	engine engine.Engine
	store  store.Store
	clock  clock.Clock
	limits Limits

	mu             sync.Mutex // guards the fields below; no other lock is taken while it is held
	modules        map[store.Digest]*Module
	granted        map[versionKey]store.Grants
	sweepScheduled bool   // a sweep is scheduled
	stop           func() // cancels the scheduled sweep; nil before the first one
	closed         bool

	sweeping sync.Mutex // held during a sweep; guards gave
	gave     int        // instances closed since the last collection
}

// NewCache returns an empty cache of the modules of a store. The clock measures how long modules are idle.
func NewCache(e engine.Engine, s store.Store, c clock.Clock, l Limits) *Cache {
	ctx, cancel := context.WithCancel(context.Background())
	return &Cache{ctx: ctx, cancel: cancel, engine: e, store: s, clock: c, limits: l, modules: map[store.Digest]*Module{},
		granted: map[versionKey]store.Grants{}}
}

// Get returns a module. The first call compiles it or loads it from the engine's cache; concurrent calls wait for
// that.
func (c *Cache) Get(d store.Digest) (*Module, error) {
	c.mu.Lock()
	m := c.modules[d]
	if m == nil {
		m = &Module{after: c.scheduleSweep, load: func() (engine.Module, error) { return c.load(d) }}
		c.modules[d] = m
	}
	c.mu.Unlock()
	err := m.know(func() ([]byte, error) {
		info, err := c.store.Modules().Info(c.ctx, d)
		return info.DescriptionJSON, err
	})
	if err != nil { // the module stays unknown: the next or a waiting caller tries again
		return nil, err
	}
	c.scheduleSweep()
	return m, nil
}

// patience lists the pauses between the attempts of GetPatiently. They are as long as a run waits after a fault of
// the host.
var patience = [...]time.Duration{time.Second, 8 * time.Second}

// GetPatiently is Get for an attempt of a step. If a module cannot be loaded, the machine is at fault (an unreadable
// store, a process without memory), not the step. So it retries after each pause of patience before it returns the
// error.
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

func (c *Cache) load(d store.Digest) (engine.Module, error) {
	return c.engine.Compile(c.ctx, engine.Source{Digest: d, Read: func(ctx context.Context) ([]byte, error) {
		return c.store.Modules().Get(ctx, d)
	}})
}

// Resident returns an estimate of the bytes that an instance of a module holds, also for a module that was never
// used.
func (c *Cache) Resident(d store.Digest) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.modules[d]; m != nil {
		return m.Resident()
	}
	return usualBytes
}

// Forget removes a module that is no longer needed, closes it when its last instance is released, and deletes it from
// the engine's cache. If that deletion fails, the module stays there until the cache evicts it.
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

// Cancel cancels all compilations and refuses new ones.
func (c *Cache) Cancel() { c.cancel() }

// Close closes all modules. The caller has stopped all guests.
func (c *Cache) Close() {
	c.cancel()
	c.mu.Lock()
	c.closed = true
	if c.stop != nil {
		c.stop()
	}
	c.mu.Unlock()
	c.sweeping.Lock() // waits for a sweep in progress
	defer c.sweeping.Unlock()
	for _, m := range c.all() {
		m.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.modules)
}

// all returns a copy of the map of modules.
func (c *Cache) all() map[store.Digest]*Module {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[store.Digest]*Module, len(c.modules))
	for d, m := range c.modules {
		all[d] = m
	}
	return all
}

// scheduleSweep schedules the next sweep unless one is pending or the cache is closed.
func (c *Cache) scheduleSweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sweepScheduled || c.closed {
		return
	}
	c.sweepScheduled = true
	every := sweepEvery
	if c.limits.Idle > 0 {
		every = min(every, c.limits.Idle)
	}
	c.stop = clock.AfterFunc(c.clock, every, c.sweep)
}

// sweep closes idle instances, unloads modules, and schedules the next sweep if any of them remain. While all runs of a
// host sleep, none remain and no sweep is scheduled.
func (c *Cache) sweep() {
	c.sweeping.Lock()
	defer c.sweeping.Unlock()
	c.mu.Lock()
	c.sweepScheduled = false
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return
	}
	gave, idle := c.engine.Trim(c.ctx)
	again := idle > 0
	sweeps := int((c.limits.Idle + sweepEvery - 1) / sweepEvery)
	bytes, left := int64(0), false
	all := c.all()
	for d, m := range all {
		n, gone, stays := m.sweep(sweeps)
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
	// wazero unmaps code when the garbage collector finds it unreachable. After a burst of guests, their instances
	// are garbage as well, and Go does not collect it while the process allocates nothing.
	c.gave += gave
	if left || c.gave >= manyInstances && idle == 0 {
		c.gave = 0
		debug.FreeOSMemory()
	}
	if again {
		c.scheduleSweep()
	}
}

func (c *Cache) gone(d store.Digest, bytes int64) {
	if c.limits.Left != nil {
		c.limits.Left(d, bytes)
	}
}

// sweep counts the consecutive sweeps in which the module was not used, and unloads it at the given number of sweeps;
// 0 keeps it. It returns the bytes that the module takes, whether it was unloaded, and whether it is in memory. It
// does not wait for a module that is being loaded.
func (m *Module) sweep(sweeps int) (bytes int64, gone, stays bool) {
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
	if sweeps > 0 && m.idle >= sweeps {
		bytes, gone = m.unloadLocked()
		return bytes, gone, !gone
	}
	return m.loaded.Bytes(), false, true
}

// unloadOldest unloads the least recently used module without instances.
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
