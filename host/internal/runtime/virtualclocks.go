package runtime

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wfhost/wfhost/store"
)

// virtualClocks holds the clocks of runs whose sleeps are skipped. Such a run and all its descendants are a family with
// one clock: the host's clock, but never earlier than the family's last skip. All other runs use the host's clock. The
// zero value has no family. It is safe for concurrent use.
type virtualClocks struct {
	any atomic.Bool // there is a family; without one, Now needs no lock

	mu       sync.Mutex
	families map[store.RunKey]member
}

// member is a run of a family.
type member struct {
	*family
	incarnation store.Incarnation // tells runs with the same id apart; zero: set by the next call of Now
}

type family struct {
	root   store.RunKey
	unixMs int64 // the latest instant passed to Leap
}

// Begin makes a run the root of a new family. It returns false if the run is already a member of a family, and leaves it
// there.
func (c *virtualClocks) Begin(root store.RunKey, incarnation store.Incarnation) (begun bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.families[root]; ok {
		return false
	}
	if c.families == nil {
		c.families = map[store.RunKey]member{}
	}
	c.families[root] = member{&family{root: root}, incarnation}
	c.any.Store(true)
	return true
}

// End dissolves the family of a root. From then on its members use the host's clock.
func (c *virtualClocks) End(root store.RunKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, f := range c.families {
		if f.root == root {
			delete(c.families, key)
		}
	}
	c.any.Store(len(c.families) > 0)
}

// Now returns the time of a run's clock, in Unix milliseconds; now is the time of the host's clock. parent is the run that
// started it, with an empty id if there is none, and begot the parent's incarnation. A child of a member becomes a member. A
// later run with the id of a member, but another incarnation, is no member.
func (c *virtualClocks) Now(now int64, run, parent store.RunKey, incarnation, begot store.Incarnation) int64 {
	if !c.any.Load() {
		return now
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.families[run]
	if ok && !same(m.incarnation, incarnation) {
		delete(c.families, run)
		ok = false
	}
	if !ok {
		m, ok = c.families[parent]
		if !ok || parent.ID == "" || !same(m.incarnation, begot) {
			return now
		}
		m.incarnation = store.Incarnation{}
	}
	if m.incarnation == (store.Incarnation{}) {
		m.incarnation = incarnation
		c.families[run] = m
	}
	return max(now, m.unixMs)
}

// same reports whether two incarnations may be the same. A zero incarnation is unknown and matches any.
func same(a, b store.Incarnation) bool {
	return a == b || a == (store.Incarnation{}) || b == (store.Incarnation{})
}

// Leap moves the clock of a root's family forward to unixMs. It does nothing if the family has leapt further.
func (c *virtualClocks) Leap(root store.RunKey, unixMs int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.families[root]; ok {
		f.unixMs = max(f.unixMs, unixMs)
	}
}

// Members returns the known members of a root's family, sorted by id.
func (c *virtualClocks) Members(root store.RunKey) (keys []store.RunKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, f := range c.families {
		if f.root == root {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b store.RunKey) int { return cmp.Compare(a.ID, b.ID) })
	return keys
}
