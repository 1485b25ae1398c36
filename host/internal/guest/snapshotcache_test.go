package guest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
)

func key(id string) store.RunKey { return store.RunKey{ID: id} }

// keeps checks which runs have a snapshot, and that the cache is empty after all are taken.
func keeps(t *testing.T, c *snapshotCache[string], all []string, want ...string) {
	t.Helper()
	kept := map[string]bool{}
	for _, id := range want {
		kept[id] = true
	}
	for _, id := range all {
		if thing, ok := c.Take(key(id)); ok != kept[id] || ok && thing != "of "+id {
			t.Errorf("of %s there is %q: %v, want %v", id, thing, ok, kept[id])
		}
	}
	if bytes, runs := c.Bytes(); bytes != 0 || runs != 0 {
		t.Errorf("an empty cache has %d bytes of %d runs", bytes, runs)
	}
}

// If there is no room, the snapshots of runs that wake soonest stay; a run that waits for an event counts as waking
// last.
func TestSoonest(t *testing.T) {
	const each = 1000
	c := newSnapshotCache[string](3 * (each + keptBytes))
	all := []string{"a", "b", "c", "d", "e", "f"}
	for _, p := range []struct {
		id    string
		wakes int64
	}{{"a", 50}, {"b", 0}, {"c", 30}, {"d", 40}, {"e", 60}, {"f", somedayMs + 2}} {
		c.Put(1, key(p.id), "of "+p.id, each, p.wakes, false)
	}
	keeps(t, c, all, "a", "c", "d")
}

// Runs that wait for places have a quarter of the cache, the first ones first, and make way for others; those that wake soon are
// like others.
func TestQueuedRunsComeLast(t *testing.T) {
	const each = 1000
	c := newSnapshotCache[string](8 * (each + keptBytes))
	ids := strings.Split("abcdefghijklmn", "")
	for _, id := range ids[:5] {
		c.Put(1, key(id), "of "+id, each, 0, true)
	}
	if _, n := c.Bytes(); n != 2 {
		t.Errorf("%d of 5 runs that wait for places have an entry", n)
	}
	for _, id := range ids[5:12] {
		c.Put(2, key(id), "of "+id, each, somedayMs, false)
	}
	c.Put(2, key("m"), "of m", each, somedayMs-1, true)
	c.Put(3, key("n"), "of n", each, 0, true)
	keeps(t, c, ids, append(ids[5:12], "m")...)
}

// A new snapshot replaces the old one of the same run. A snapshot that is too large is not kept, and evicts nothing.
func TestReplaced(t *testing.T) {
	c := newSnapshotCache[string](2000)
	c.Put(1, key("a"), "old", 100, 50, false)
	c.Put(1, key("a"), "of a", 200, 60, false)
	if bytes, runs := c.Bytes(); bytes != 200+keptBytes || runs != 1 {
		t.Errorf("%d bytes of %d runs", bytes, runs)
	}
	c.Put(1, key("b"), "of b", 5000, 70, false)
	keeps(t, c, []string{"a", "b"}, "a")
	none := newSnapshotCache[string](0)
	none.Put(1, key("a"), "of a", 1, 2, false)
	keeps(t, none, []string{"a"})
}

// The snapshot of a run that does not wake on time is dropped.
func TestStale(t *testing.T) {
	c := newSnapshotCache[string](1 << 20)
	c.Put(1, key("a"), "of a", 1, 50, false)
	c.Put(1, key("b"), "of b", 1, 60, false)
	c.Put(50+staleMs, key("c"), "of c", 1, 50+staleMs+farMs, false)
	keeps(t, c, []string{"a", "b", "c"}, "b", "c")
	c.Put(1, key("a"), "of a", 1, 50, false)
	c.Clear()
	keeps(t, c, []string{"a"})
}

// A run that sleeps for long has no snapshot, and an earlier one is dropped.
func TestFar(t *testing.T) {
	c := newSnapshotCache[string](1 << 20)
	c.Put(1, key("a"), "of a", 1, 1+farMs, false)
	c.Put(1, key("b"), "of b", 1, 2+farMs, false)
	keeps(t, c, []string{"a", "b"}, "a")
	c.Put(1, key("b"), "of b", 1, 50, false)
	c.Put(2, key("b"), "of b", 1, 3+farMs, false)
	keeps(t, c, []string{"b"})
}

// TestOverheadIsReal compares what entries of the cache count as, beyond their things, with what the heap has for them.
func TestOverheadIsReal(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, n := range []int{10_000, 20_000, 40_000} {
		before := heap()
		c := newSnapshotCache[*snapshot](1 << 30)
		for i := range n {
			c.Put(1, key(fmt.Sprintf("order-2026-11-%08d", i)), nil, 0, int64(1000+i%7), false)
		}
		took := heap() - before
		counted, _ := c.Bytes()
		t.Logf("%d entries: %d bytes each, counted as %d", n, took/int64(n), counted/int64(n))
		if counted < took*8/10 || counted > took*14/10 {
			t.Errorf("%d entries take %d bytes each, and count as %d", n, took/int64(n), counted/int64(n))
		}
		runtime.KeepAlive(c)
	}
}
