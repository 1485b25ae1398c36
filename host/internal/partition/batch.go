package partition

import (
	"cmp"
	"slices"

	"github.com/wfhost/wfhost/store"
)

const (
	// maxBatchBytes bounds what one batch writes, about: a larger one holds up what comes behind it.
	maxBatchBytes = 4 << 20
	// heavyBytes is from where on a commit is heavy. A run that sleeps and steps writes less than a kilobyte at a time; one
	// that opens 10,000 handles between two waits, more than a megabyte. Heavy commits go in batches of their own, one at a
	// time, so that the others wait for at most one of them on the disk.
	heavyBytes = 64 << 10
)

// Batch is one group commit.
type Batch struct {
	Groups []store.Group
	Bytes  int       // of entries, about
	slots  [][]*slot // of each run of each group
	parts  []*Partition

	picked []pick // before the groups are made
	heavy  bool   // its commits are
}

// pick is the commit of a run that a batch will have.
type pick struct {
	sl     *slot
	commit *store.RunCommit
	bytes  int // about how much that writes
}

// newPick takes the commit that a slot has sent on its way.
func newPick(sl *slot) pick {
	c := sl.Take()
	bytes := 0
	for i := range c.Append {
		bytes += len(c.Append[i].Input) + len(c.Append[i].Data) + 64
	}
	return pick{sl: sl, commit: c, bytes: bytes}
}

// Len returns the number of runs.
func (b *Batch) Len() (n int) {
	for i := range b.Groups {
		n += len(b.Groups[i].Runs)
	}
	return n
}

// add adds a commit.
func (b *Batch) add(p pick) {
	b.picked = append(b.picked, p)
	b.Bytes += p.bytes
}

// full reports whether the batch takes no more commits.
func (b *Batch) full() bool {
	return len(b.picked) >= store.MaxCommitRecords || b.Bytes >= maxBatchBytes
}

// group makes the groups: the commits that the slots have prepared, by partition.
func (b *Batch) group() {
	picked := b.picked
	b.picked = nil
	slices.SortStableFunc(picked, func(a, b pick) int { return cmp.Compare(a.sl.p.ID, b.sl.p.ID) })
	slots := make([]*slot, len(picked))
	for i := range picked {
		slots[i] = picked[i].sl
	}
	parts := 0
	for i, sl := range slots {
		if i == 0 || sl.p != slots[i-1].p {
			parts++
		}
	}
	b.parts, b.Groups = make([]*Partition, 0, parts), make([]store.Group, 0, parts)
	b.slots = make([][]*slot, 0, parts)
	commits := make([]store.RunCommit, len(slots))
	for from := 0; from < len(slots); {
		p, to := slots[from].p, from
		for ; to < len(slots) && slots[to].p == p; to++ {
			commits[to] = *picked[to].commit
		}
		b.parts = append(b.parts, p)
		b.Groups = append(b.Groups, store.Group{Partition: p.Owned, Runs: commits[from:to:to]})
		b.slots = append(b.slots, slots[from:to:to])
		from = to
	}
}

// remove takes a partition out.
func (b *Batch) remove(p *Partition) {
	if i := slices.Index(b.parts, p); i >= 0 {
		b.parts, b.Groups, b.slots = slices.Delete(b.parts, i, i+1), slices.Delete(b.Groups, i, i+1), slices.Delete(b.slots, i, i+1)
	}
}

// leaveOut takes the commit of a run out, which the store has refused, and returns its slot.
func (b *Batch) leaveOut(group, n int) *slot {
	sl, runs, slots := b.slots[group][n], &b.Groups[group].Runs, &b.slots[group]
	*runs, *slots = slices.Delete(*runs, n, n+1), slices.Delete(*slots, n, n+1)
	return sl
}

// commits is what there is to commit, and what is on its way: a run that has changed is ready, and is in one batch at most.
type commits struct {
	limit   int      // of those that are on their way
	flying  int      // how many are
	ready   []*slot  // slots that may have something to commit
	heavy   []pick   // heavy commits that wait for a batch
	heavies int      // how many of the batches on their way have heavy ones
	light   bool     // the batch made last had none
	again   []*Batch // what is left of batches, one run of which was refused
}

// add has a slot looked at when the next batch is made.
func (c *commits) add(sl *slot) {
	if !sl.queued {
		sl.queued = true
		c.ready = append(c.ready, sl)
	}
}

// lose forgets the runs of a partition.
func (c *commits) lose(p *Partition) {
	c.ready = slices.DeleteFunc(c.ready, func(sl *slot) bool { return sl.p == p })
	c.heavy = slices.DeleteFunc(c.heavy, func(h pick) bool { return h.sl.p == p })
	for _, b := range c.again {
		b.remove(p)
	}
}

// next returns what is left of a batch that is to be committed again, nil if there is nothing.
func (c *commits) next() *Batch {
	for len(c.again) > 0 {
		b := c.again[0]
		c.again = c.again[1:]
		if b.Len() > 0 {
			return b
		}
	}
	return nil
}

// nextHeavy returns a batch of heavy commits, nil if there are none, or if one is on its way.
func (c *commits) nextHeavy() *Batch {
	if c.heavies > 0 {
		return nil
	}
	b := &Batch{heavy: true}
	for ; len(c.heavy) > 0 && !b.full(); c.heavy = slices.Delete(c.heavy, 0, 1) {
		if !c.heavy[0].sl.gone {
			b.add(c.heavy[0])
		}
	}
	if len(b.picked) == 0 {
		return nil
	}
	return b
}

// count counts a batch that is on its way, with n = 1, or no longer, with -1.
func (c *commits) count(b *Batch, n int) {
	c.flying += n
	if b.heavy {
		c.heavies += n
	}
}
