package pebblestore

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// commit is a call of Commit.
type commit struct {
	s       *Store
	groups  []store.Group // by ascending partition, see order
	index   []int         // maps to the groups in the caller's order; nil if the order is the same
	b       *pebble.Batch
	records []*record // each run after the commit, nil if deleted
	fences  int       // number of groups whose fence is locked
	flying  int       // number of groups counted as in flight
	marks   []lowered // the locked marks
	one     [1]lowered
	inbox   bool // the inbox lock is held
	counts  shifts
	large   payloads
}

// Commit makes groups durable with one batch and one fsync.
func (s *Store) Commit(_ context.Context, groups []store.Group) error {
	c := commit{s: s, groups: groups}
	return c.do()
}

// Commit makes all commits durable, or none.
func (p *partition) Commit(ctx context.Context, runs []store.RunCommit) error {
	return p.s.Commit(ctx, []store.Group{{Partition: p, Runs: runs}})
}

func (c *commit) do() error {
	end, err := c.s.beginWrite()
	if err != nil {
		return err
	}
	defer end()
	if err := store.CheckGroups(c.groups); err != nil {
		return err
	}
	if err := c.order(); err != nil {
		return err
	}
	defer c.s.lockRuns(c.groups)()
	defer c.land()
	if err := c.lockFences(); err != nil {
		return err
	}
	c.b = c.s.db.NewBatch()
	if err := c.build(); err != nil {
		c.release()
		_ = c.b.Close() // memory only
		return err
	}
	c.hideReplaced()
	err = c.s.sync(c.b, c.release)
	if err == nil {
		_ = c.b.Close() // memory only; the batch of a failed store may still be in use
		c.s.tallies.durable(&c.counts)
		c.s.flushRanges()
		c.s.deletions.Add(c.deletions())
	}
	n := 0
	for i := range c.groups {
		for j := range c.groups[i].Runs {
			if err != nil { // the commit may or may not be durable
				c.records[n] = nil
			}
			c.s.cache.put(c.groups[i].Runs[j].Run, c.records[n])
			n++
		}
	}
	return err
}

// deletions returns how many runs the commit deletes.
func (c *commit) deletions() (n int64) {
	for i := range c.groups {
		for j := range c.groups[i].Runs {
			if r := &c.groups[i].Runs[j]; r.Delete || r.Replace || r.State.Deleted {
				n++
			}
		}
	}
	return n
}

// build fills the batch. It takes the locks of marks, inbox and counts as late as possible: all runs of a partition, or
// of the store, share them.
func (c *commit) build() error {
	runs, outgoing := 0, false
	for i := range c.groups {
		runs += len(c.groups[i].Runs)
	}
	c.records = make([]*record, 0, runs)
	for i := range c.groups {
		g := &c.groups[i]
		p := g.Partition.ID()
		for j := range g.Runs {
			r, err := c.s.add(c.b, &g.Runs[j], &c.counts, &c.large)
			if err != nil {
				return c.refused(i, j, err)
			}
			c.records = append(c.records, r)
			for _, ack := range g.Runs[j].Ack {
				_ = c.b.Delete(inboxKey(p, ack), nil)
			}
			outgoing = outgoing || len(g.Runs[j].Outbox) > 0
		}
		for j := range g.Schedules {
			if err := c.s.setSchedule(c.b, p, &g.Schedules[j]); err != nil {
				return c.refused(i, -1, err)
			}
		}
		for j := range g.Queues {
			if err := c.setQueue(p, &g.Queues[j]); err != nil {
				return c.refused(i, -1, err)
			}
			outgoing = outgoing || len(g.Queues[j].Outbox) > 0
		}
		for j := range g.Wakes {
			setWake(c.b, p, &g.Wakes[j])
		}
	}
	c.lockMarks()
	if outgoing {
		if err := c.send(); err != nil {
			return err
		}
	}
	if err := c.s.settle(c.b, &c.large); err != nil {
		return err
	}
	c.s.tallies.lock(c.b, &c.counts) // last: it notes the counts of a batch that will be applied
	return nil
}

// setWake moves a wake that does not belong to a run.
func setWake(b *pebble.Batch, p store.PartitionID, w *store.WakeSet) {
	key := store.WakeKey{UnixMs: w.OldUnixMs, Kind: w.Kind, Key: w.Key}
	if w.OldUnixMs != store.NoWake {
		_ = b.Delete(store.WakeIndexKey(p, key), nil)
	}
	key.UnixMs = w.UnixMs
	if w.UnixMs != store.NoWake {
		_ = b.Set(store.WakeIndexKey(p, key), binary.BigEndian.AppendUint64(nil, uint64(w.UnixMs)), nil)
	}
}

// send puts outgoing commands into their inboxes.
func (c *commit) send() error {
	c.s.inbox.Lock()
	c.inbox = true
	for i := range c.groups {
		for j := range c.groups[i].Runs {
			for _, cmd := range c.groups[i].Runs[j].Outbox {
				if err := c.s.addCommand(c.b, cmd); err != nil {
					return c.refused(i, j, err)
				}
			}
		}
		for j := range c.groups[i].Queues {
			for _, cmd := range c.groups[i].Queues[j].Outbox {
				if err := c.s.addCommand(c.b, cmd); err != nil {
					return c.refused(i, -1, err)
				}
			}
		}
	}
	return nil
}

// hideReplaced removes runs from the cache whose records the batch deletes, before the batch is applied. Readers of
// such a run then wait for its lock, see Store.view.
func (c *commit) hideReplaced() {
	for i := range c.groups {
		for j := range c.groups[i].Runs {
			if r := &c.groups[i].Runs[j]; r.Delete || r.Replace {
				c.s.cache.put(r.Run, nil)
			}
		}
	}
}

func (c *commit) refused(group, run int, err error) error {
	if c.index != nil {
		group = c.index[group]
	}
	return &store.RefusedError{Group: group, Run: run, Err: err}
}

// firstWake returns the earliest key that a group sets in the wake index, MaxInt64 if it sets none.
func firstWake(g *store.Group) int64 {
	first := int64(math.MaxInt64)
	for i := range g.Runs {
		if c := &g.Runs[i]; !c.Delete && c.State.WakeUnixMs != store.NoWake {
			first = min(first, max(c.State.WakeUnixMs, 0))
		}
	}
	for i := range g.Schedules {
		if x := &g.Schedules[i]; !x.Delete && x.Schedule.WakeUnixMs != store.NoWake {
			first = min(first, max(x.Schedule.WakeUnixMs, 0))
		}
	}
	for i := range g.Wakes {
		if w := &g.Wakes[i]; w.UnixMs != store.NoWake {
			first = min(first, max(w.UnixMs, 0))
		}
	}
	return first
}
