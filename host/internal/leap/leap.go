// Package leap holds the clocks of runs whose sleeps are skipped. Such a run, its children and theirs are a family, which has
// one clock: the host's, but never before the instant to which the family has leapt. All other runs have the host's clock.
package leap

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wfhost/wfhost/store"
)

// Clocks are the clocks of all families of a host. The zero value has none. It is safe for concurrent use.
type Clocks struct {
	any atomic.Bool // there is a family; it saves other hosts the lock

	mu       sync.Mutex
	families map[store.RunKey]member
}

// member is a run of a family.
type member struct {
	*family
	incarnation store.Incarnation // which run of its id it is; zero: that which asks next
}

type family struct {
	root   store.RunKey
	unixMs int64 // the instant to which it has leapt
}

// Begin makes a run the root of a family, and reports whether it is a new one: a run that is a member of one stays there.
func (c *Clocks) Begin(root store.RunKey, incarnation store.Incarnation) (begun bool) {
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

// End dissolves the family of a root: from then on its members have the host's clock.
func (c *Clocks) End(root store.RunKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, f := range c.families {
		if f.root == root {
			delete(c.families, key)
		}
	}
	c.any.Store(len(c.families) > 0)
}

// Now returns the instant of a run's clock, in Unix milliseconds, where that of the host shows now. parent is the run that has
// started it, with an empty id if none has: a child of a member becomes one. Another run that has taken the id of a member is a
// stranger.
func (c *Clocks) Now(now int64, run, parent store.RunKey, incarnation, begot store.Incarnation) int64 {
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

// same reports whether two incarnations may be one: a zero one is not known.
func same(a, b store.Incarnation) bool {
	return a == b || a == (store.Incarnation{}) || b == (store.Incarnation{})
}

// Leap moves the clock of a root's family to an instant, unless it shows a later one.
func (c *Clocks) Leap(root store.RunKey, unixMs int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.families[root]; ok {
		f.unixMs = max(f.unixMs, unixMs)
	}
}

// Members returns the runs of a root's family that are known, by their ids.
func (c *Clocks) Members(root store.RunKey) (keys []store.RunKey) {
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
