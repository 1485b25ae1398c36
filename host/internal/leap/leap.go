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
	families map[store.RunKey]*family // by their members
}

type family struct {
	root   store.RunKey
	unixMs int64 // the instant to which it has leapt
}

// Begin makes a run the root of a family, and reports whether it is a new one: a run that is a member of one stays there.
func (c *Clocks) Begin(root store.RunKey) (begun bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.families[root] != nil {
		return false
	}
	if c.families == nil {
		c.families = map[store.RunKey]*family{}
	}
	c.families[root] = &family{root: root}
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

// Now returns the instant of a run's clock, in Unix milliseconds, where that of the host shows now. parent is the id of the
// run that has started it, "" if none has: a child of a member becomes one.
func (c *Clocks) Now(now int64, run store.RunKey, parent string) int64 {
	if !c.any.Load() {
		return now
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.families[run]
	if f == nil && parent != "" {
		if f = c.families[store.RunKey{Namespace: run.Namespace, ID: parent}]; f != nil {
			c.families[run] = f
		}
	}
	if f == nil {
		return now
	}
	return max(now, f.unixMs)
}

// Leap moves the clock of a root's family to an instant, unless it shows a later one.
func (c *Clocks) Leap(root store.RunKey, unixMs int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.families[root]; f != nil {
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
