package guest

import (
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
		c.Put(1, key(p.id), "of "+p.id, each, p.wakes)
	}
	keeps(t, c, all, "a", "c", "d")
}

// A new snapshot replaces the old one of the same run. A snapshot that is too large is not kept, and evicts nothing.
func TestReplaced(t *testing.T) {
	c := newSnapshotCache[string](2000)
	c.Put(1, key("a"), "old", 100, 50)
	c.Put(1, key("a"), "of a", 200, 60)
	if bytes, runs := c.Bytes(); bytes != 200+keptBytes || runs != 1 {
		t.Errorf("%d bytes of %d runs", bytes, runs)
	}
	c.Put(1, key("b"), "of b", 5000, 70)
	keeps(t, c, []string{"a", "b"}, "a")
	none := newSnapshotCache[string](0)
	none.Put(1, key("a"), "of a", 1, 2)
	keeps(t, none, []string{"a"})
}

// The snapshot of a run that does not wake on time is dropped.
func TestStale(t *testing.T) {
	c := newSnapshotCache[string](1 << 20)
	c.Put(1, key("a"), "of a", 1, 50)
	c.Put(1, key("b"), "of b", 1, 60)
	c.Put(50+staleMs, key("c"), "of c", 1, 50+staleMs+farMs)
	keeps(t, c, []string{"a", "b", "c"}, "b", "c")
	c.Put(1, key("a"), "of a", 1, 50)
	c.Clear()
	keeps(t, c, []string{"a"})
}

// A run that sleeps for long has no snapshot, and an earlier one is dropped.
func TestFar(t *testing.T) {
	c := newSnapshotCache[string](1 << 20)
	c.Put(1, key("a"), "of a", 1, 1+farMs)
	c.Put(1, key("b"), "of b", 1, 2+farMs)
	keeps(t, c, []string{"a", "b"}, "a")
	c.Put(1, key("b"), "of b", 1, 50)
	c.Put(2, key("b"), "of b", 1, 3+farMs)
	keeps(t, c, []string{"b"})
}
