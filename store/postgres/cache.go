package postgres

import (
	"container/list"
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// record is what a commit needs of a run. It is immutable.
type record struct {
	state     store.RunState
	rev       int64        // number of commits since the run was created
	tailFirst store.Seq    // seq of the first entry in the tail of the journal
	tailBytes int          // bytes of the tail
	listed    store.Status // whose list has the run, 0 = none
}

// absent is the record of an id without a run.
var absent = &record{}

// cacheBytes bounds the cached records. recordBytes is the approximate size of one besides its state.
const (
	cacheBytes  = 32 << 20
	recordBytes = 256
)

// stripes is the number of counters by which a reader notices that a commit has changed a run meanwhile.
const stripes = 1024

// cache holds the records of runs in partitions that this store owns. Other hosts cannot change them without fencing this store
// first, and each commit compares rev in the database. So a record that is out of date makes a commit fail and is then
// dropped; it never makes a wrong commit.
type cache struct {
	mu    sync.Mutex
	items map[store.RunKey]*list.Element // of *item
	lru   list.List                      // the most recently used first
	bytes int
	seed  maphash.Seed
	gen   [stripes]uint64 // raised by each put of a commit
}

type item struct {
	run    store.RunKey
	record *record
	bytes  int
}

// get returns the record of a run, absent if there is no such run, nil if it is not cached.
func (c *cache) get(run store.RunKey) *record {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.items[run]
	if e == nil {
		return nil
	}
	c.lru.MoveToFront(e)
	return e.Value.(*item).record //nolint:forcetypeassert // it holds nothing else
}

// begin returns what fill wants to know, before a record is read from the database.
func (c *cache) begin(run store.RunKey) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gen[c.stripe(run)]
}

// fill caches a record that was read, unless a commit has changed the run since begin.
func (c *cache) fill(run store.RunKey, r *record, begun uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gen[c.stripe(run)] == begun {
		c.set(run, r)
	}
}

// put caches the record of a run after a commit, or removes it if r is nil.
func (c *cache) put(run store.RunKey, r *record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gen[c.stripe(run)]++
	c.set(run, r)
}

// drop removes all records of partitions.
func (c *cache) drop(ps ...store.PartitionID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.gen {
		c.gen[i]++
	}
	for run, e := range c.items {
		if slices.Contains(ps, run.Partition()) {
			c.remove(e)
		}
	}
}

func (c *cache) stripe(run store.RunKey) uint64 {
	if c.items == nil {
		c.items, c.seed = map[store.RunKey]*list.Element{}, maphash.MakeSeed()
	}
	return maphash.Comparable(c.seed, run) % stripes
}

func (c *cache) set(run store.RunKey, r *record) {
	if e := c.items[run]; e != nil {
		c.remove(e)
	}
	if r == nil || len(run.ID) > abi.MaxRunIDBytes {
		return
	}
	if r == absent {
		run.ID = strings.Clone(run.ID) // which may be a part of a long request
	}
	i := &item{run: run, record: r, bytes: recordBytes + len(run.ID) + r.state.Bytes()}
	c.items[run] = c.lru.PushFront(i)
	c.bytes += i.bytes
	for c.bytes > cacheBytes && c.lru.Len() > 1 {
		c.remove(c.lru.Back())
	}
}

func (c *cache) remove(e *list.Element) {
	i := e.Value.(*item) //nolint:forcetypeassert // it holds nothing else
	c.lru.Remove(e)
	delete(c.items, i.run)
	c.bytes -= i.bytes
}
