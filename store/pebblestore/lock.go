package pebblestore

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// The locks of a Store, in the order in which they are taken. Several locks of one kind are taken by ascending
// partition.
//
//	lock           guards                                       held by a commit until
//	parts.acquire  one Acquire of a partition at a time         not at all
//	runs           the records of a run, a schedule or a        the batch is durable, or the store has failed
//	               queue, in the database and in the cache:
//	               see heldRuns
//	parts.mu       the owner of a partition (RLock: it stays)   the batch is applied
//	marks          the mark of a partition                      the batch is applied
//	inbox          the newest number of every inbox             the batch is applied
//	payloads       which runs have a large payload              the batch is applied
//	tallies.parts  the counts of a partition that are stored    the batch is applied
//	tallies.mu     the counts that are durable                  the function returns
//	cache.mu       the cache                                    the function returns
//	settling.mu    tokens, namespaces, limits before a change   the function returns
//	newest.mu      the newest versions, and their numbers       the function returns
//
// "Applied" means that the batch has its place in the log, after all batches that were applied before, and is visible
// to reads. A batch that is applied later is durable later. So decisions under parts.mu, marks or inbox need not wait
// for the disk: a commit of an earlier owner is before the epoch that fences it, or is refused.
//
// No goroutine waits for an fsync while it holds parts.mu, marks, inbox, payloads or tallies.parts, or takes a lock of
// runs while it holds one of them. An Acquire holds parts.mu while it applies the new epoch. Then it waits for its
// fsync, and for commits of the earlier owner, which are ahead of it in the log. A commit waits for an Acquire only
// while the epoch is applied. Claim and Discard take parts.mu and inbox; raise takes marks, reads and applies. The
// locks versions (of modules and versions), settings (of namespaces and retentions) and tokens are taken before
// settling.mu and newest.mu and no others, and limits (of workflows) before inbox. They are held until the change is
// durable. Looking up one token, namespace, version or limit takes none of these four.
//
// Locks that are released once a batch is applied are released by the goroutine that applies it, see sync. In a failed
// store they are released without the batch being applied: such a store takes no more writes.

// lockRun locks a run: its records and the cache do not change meanwhile, and its stored records are durable.
func (s *Store) lockRun(run store.RunKey) (unlock func()) {
	h := &s.runs[run.Partition()]
	h.lock(run)
	return func() { h.unlock(run) }
}

// lockRuns locks the runs, schedules and queues of all groups, which must be sorted by partition.
func (s *Store) lockRuns(groups []store.Group) (unlock func()) {
	if len(groups) == 1 && len(groups[0].Runs) == 1 && len(groups[0].Schedules)+len(groups[0].Queues) == 0 {
		return s.lockRun(groups[0].Runs[0].Run)
	}
	keys := make([][]store.RunKey, len(groups))
	for i := range groups {
		g := &groups[i]
		keys[i] = make([]store.RunKey, 0, len(g.Runs)+len(g.Schedules)+len(g.Queues))
		for j := range g.Runs {
			keys[i] = append(keys[i], g.Runs[j].Run)
		}
		for j := range g.Schedules {
			keys[i] = append(keys[i], g.Schedules[j].Schedule.Key)
		}
		for j := range g.Queues {
			keys[i] = append(keys[i], g.Queues[j].Queue)
		}
		s.runs[g.Partition.ID()].lock(keys[i]...)
	}
	return func() {
		for i := range groups {
			s.runs[groups[i].Partition.ID()].unlock(keys[i]...)
		}
	}
}

var errForeign = errors.New("the partition was not acquired from this store")

// order sorts the groups by partition, and refuses partitions of other stores.
func (c *commit) order() error {
	for i := range c.groups {
		if p, ok := c.groups[i].Partition.(*partition); !ok || p.s != c.s {
			return c.refused(i, -1, errForeign)
		}
	}
	byPartition := func(a, b store.Group) int { return cmp.Compare(a.Partition.ID(), b.Partition.ID()) }
	if slices.IsSortedFunc(c.groups, byPartition) {
		return nil
	}
	given := c.groups
	for i := range given {
		c.index = append(c.index, i)
	}
	slices.SortFunc(c.index, func(a, b int) int { return byPartition(given[a], given[b]) })
	c.groups = make([]store.Group, 0, len(given))
	for _, i := range c.index {
		c.groups = append(c.groups, given[i])
	}
	return nil
}

// lockFences locks the fences of all groups, or none if one of them has another owner.
func (c *commit) lockFences() error {
	for i := range c.groups {
		p := c.groups[i].Partition.(*partition) //nolint:forcetypeassert // order has checked it
		if err := p.lockOwner(); err != nil {
			c.release()
			return c.refused(i, -1, err)
		}
		c.fences++
		p.flight.Add(1)
		c.flying++
	}
	return nil
}

// land ends the flight of the groups: the cache has their durable records, or they were refused.
func (c *commit) land() {
	for i := range c.groups[:c.flying] {
		c.groups[i].Partition.(*partition).flight.Done() //nolint:forcetypeassert // order has checked it
	}
}

// lockMarks locks the mark of each group's partition, and keeps it below the wakes that the group sets.
func (c *commit) lockMarks() {
	c.marks = c.one[:0]
	for i := range c.groups {
		if first := firstWake(&c.groups[i]); first != math.MaxInt64 {
			p := c.groups[i].Partition.ID()
			c.marks = append(c.marks, c.s.marks[p].lock(c.b, p, first))
		}
	}
}

// release releases the locks that are held only until the batch is applied.
func (c *commit) release() {
	c.s.tallies.unlock(&c.counts)
	c.large.unlock()
	if c.inbox {
		c.s.inbox.Unlock()
	}
	for _, m := range c.marks {
		m.unlock()
	}
	for i := range c.groups[:c.fences] {
		c.s.parts[c.groups[i].Partition.ID()].mu.RUnlock()
	}
	c.inbox, c.marks, c.fences = false, nil, 0
}
