package pebblestore

import (
	"container/list"
	"strings"
	"sync"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// cacheBytes bounds the cached records of runs that will be needed soon: some ten thousand short journals.
const cacheBytes = 32 << 20

// nearMs is how far ahead a run's wake may be for the run to be cached. Later runs would only evict runs that wake
// before them. It is about one turn of the host's timer wheel.
const nearMs = 65_536

// queuedBytes bounds the cached records of runs that wait for a place of an attempt. If many of them wait, because a service is
// down, those that continue first are no longer cached with any limit.
const queuedBytes = cacheBytes / 4

// endedBytes bounds the cached records of ended runs, whose results are read soon afterwards, and of ids without a run,
// which are often about to be started: some three thousand in all.
const endedBytes = 2 << 20

// recordBytes is the approximate size of a record besides its variable parts: the struct, its key, its entries in map
// and list.
const recordBytes = 740

// record holds what a commit and a wake need of a run: its state, and the last chunk of its journal. It is as of a
// durable commit and immutable, except that the next commit may append to the capacity of last.
type record struct {
	stored
	last []byte
}

// absent is the record of an id without a run.
var absent = &record{}

func (r *record) bytes(run store.RunKey) int {
	n := recordBytes + cap(r.last) + len(run.ID) + len(r.state.Reason) + len(r.state.Memo) + len(r.state.TraceParent)
	for i := range r.state.Attributes {
		n += len(r.state.Attributes[i].Key) + len(r.state.Attributes[i].Value)
	}
	return n
}

// list returns the LRU list for the record, nil if it will not be needed soon.
func (r *record) list(c *cache) *recent {
	s := &r.state
	switch {
	case r == absent || s.Status.Terminal() && !s.Deleted:
		return &c.ended
	case s.Status == store.Waiting && s.WakeUnixMs <= s.UpdatedUnixMs:
		return &c.queued
	case !s.Deleted && s.WakeUnixMs-s.UpdatedUnixMs <= nearMs:
		return &c.live
	}
	return nil
}

// tail returns the last chunk if it holds all entries of an iteration from a seq on.
func (r *record) tail(iteration uint32, from store.Seq) ([]byte, bool) {
	return r.last, r != absent && iteration == r.state.Iteration && from >= r.chunk && len(r.last) > 0
}

// cache holds records and evicts the least recently used ones, with separate bounds for runs that continue, for runs that
// wait for a place, and for other ids. It agrees with the database: a commit holds the lock of each run that it changes
// until both are up to date, and a run is noted as absent only under its lock.
type cache struct {
	mu     sync.Mutex
	items  map[store.RunKey]*list.Element
	live   recent
	queued recent
	ended  recent
}

// recent is an LRU list of records.
type recent struct {
	lru   list.List // of *item, the most recently used first
	bytes int
}

type item struct {
	run    store.RunKey
	record *record
	bytes  int
	in     *recent
}

// get returns the record of a run, absent if there is no such run, nil if it is not cached.
func (c *cache) get(run store.RunKey) *record {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.items[run]
	if e == nil {
		return nil
	}
	i := e.Value.(*item) //nolint:forcetypeassert // it holds nothing else
	i.in.lru.MoveToFront(e)
	return i.record
}

// put replaces the cached record of a run, and removes it if r is nil or will not be needed soon.
func (c *cache) put(run store.RunKey, r *record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.items[run]; e != nil {
		c.remove(e)
	}
	if r == nil || r == absent && len(run.ID) > abi.MaxRunIDBytes { // no run will have that id
		return
	}
	in := r.list(c)
	if in == nil {
		return
	}
	if r == absent {
		run.ID = strings.Clone(run.ID) // which may be a part of a long request
	}
	i := &item{run: run, record: r, bytes: r.bytes(run), in: in}
	if c.items == nil {
		c.items = map[store.RunKey]*list.Element{}
	}
	c.items[run] = in.lru.PushFront(i)
	in.bytes += i.bytes
	c.shrink(&c.live, cacheBytes)
	c.shrink(&c.queued, queuedBytes)
	c.shrink(&c.ended, endedBytes)
}

// shrink removes the least recently used records above the limit. The last record stays.
func (c *cache) shrink(in *recent, limit int) {
	for in.bytes > limit && in.lru.Len() > 1 {
		c.remove(in.lru.Back())
	}
}

func (c *cache) remove(e *list.Element) {
	i := e.Value.(*item) //nolint:forcetypeassert // it holds nothing else
	i.in.lru.Remove(e)
	delete(c.items, i.run)
	i.in.bytes -= i.bytes
}
