package pebblestore

import (
	"container/list"
	"sync"

	"github.com/wfhost/wfhost/store"
)

// cacheBytes bounds what is kept of runs that will be needed soon: some ten thousand short journals.
const cacheBytes = 32 << 20

// nearMs is how far ahead a run's wake may lie for the run to be kept: later ones would only push out those that
// wake before them. It is about as long as a turn of the host's wheel.
const nearMs = 65_536

// recordBytes is about what a record takes beside its variable parts: itself, its key, its places in map and list.
const recordBytes = 640

// record is what a commit and a wake need of a run: its state, and the last chunk of its journal. It is as of a
// durable commit and does not change, but a next commit may append to last, behind its end.
type record struct {
	stored
	last []byte
}

func (r *record) bytes() int {
	n := recordBytes + cap(r.last) + len(r.state.Reason) + len(r.state.Memo) + len(r.state.TraceParent)
	for i := range r.state.Attributes {
		n += len(r.state.Attributes[i].Key) + len(r.state.Attributes[i].Value)
	}
	return n
}

// soon tells whether somebody may need the record soon.
func (r *record) soon() bool {
	s := &r.state
	return !s.Deleted && !s.Status.Terminal() && s.WakeUnixMs-s.UpdatedUnixMs <= nearMs
}

// cache holds records, the least recently used of which give way. What it holds is what the database holds: whoever
// changes a record has the lock of its run, from before the database changes until after the cache does.
type cache struct {
	mu    sync.Mutex
	items map[store.RunKey]*list.Element
	lru   list.List // of *item, the most recently used first
	bytes int
}

type item struct {
	run    store.RunKey
	record *record
	bytes  int
}

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

// put replaces what is held of a run, by nothing if the record is nil or will not be needed soon.
func (c *cache) put(run store.RunKey, r *record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.items[run]
	switch keep := r != nil && r.soon(); {
	case !keep && e != nil:
		c.remove(e)
		return
	case !keep:
		return
	case e == nil:
		e = c.lru.PushFront(&item{run: run})
		if c.items == nil {
			c.items = map[store.RunKey]*list.Element{}
		}
		c.items[run] = e
	default:
		c.lru.MoveToFront(e)
	}
	i := e.Value.(*item) //nolint:forcetypeassert // it holds nothing else
	c.bytes -= i.bytes
	i.record, i.bytes = r, r.bytes()
	c.bytes += i.bytes
	for c.bytes > cacheBytes && c.lru.Len() > 1 {
		c.remove(c.lru.Back())
	}
}

func (c *cache) remove(e *list.Element) {
	i := c.lru.Remove(e).(*item) //nolint:forcetypeassert // it holds nothing else
	delete(c.items, i.run)
	c.bytes -= i.bytes
}
