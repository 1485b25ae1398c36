package pebblestore

import (
	"fmt"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// TestCache holds what was used last, within its bytes, and nothing that nobody will need soon.
func TestCache(t *testing.T) {
	var c cache
	run := func(i int) store.RunKey { return store.RunKey{ID: fmt.Sprint(i)} }
	put := func(i int, bytes int) {
		c.put(run(i), &record{stored: stored{state: store.RunState{Run: run(i), Status: store.Sleeping, WakeUnixMs: store.NoWake}},
			last: make([]byte, bytes)})
	}
	put(0, 1000)
	put(0, 2000)
	if c.bytes != 2000+recordBytes || c.lru.Len() != 1 {
		t.Fatalf("%d bytes in %d records", c.bytes, c.lru.Len())
	}
	const many = cacheBytes / (1 << 20)
	for i := range many {
		put(i, 1<<20)
		c.get(run(0))
	}
	if c.get(run(0)) == nil || c.get(run(1)) != nil || c.get(run(many-1)) == nil || c.bytes > cacheBytes {
		t.Fatalf("%d bytes, limit %d", c.bytes, cacheBytes)
	}
	for i, s := range []store.RunState{
		{Status: store.Completed, WakeUnixMs: store.NoWake},
		{Status: store.Sleeping, UpdatedUnixMs: 5, WakeUnixMs: 6 + nearMs},
		{Status: store.Completed, WakeUnixMs: store.NoWake, Deleted: true},
	} {
		c.put(run(0), &record{stored: stored{state: s}})
		if c.get(run(0)) != nil {
			t.Errorf("state %d is kept", i)
		}
	}
	for i := range many {
		c.put(run(i), nil)
	}
	if c.bytes != 0 || c.lru.Len() != 0 || len(c.items) != 0 {
		t.Errorf("%d bytes in %d records are left", c.bytes, c.lru.Len())
	}
}
