package partition

import (
	"cmp"
	"slices"

	"github.com/wfhost/wfhost/host/internal/fairqueue"
	"github.com/wfhost/wfhost/host/internal/queued"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

const (
	// maxBatchBytes bounds what one batch writes, about: a larger one holds up what comes behind it, and the shard while it is made.
	// Some three hundred commits of runs that sleep are as much.
	maxBatchBytes = 128 << 10
	// commitBytes is what a commit writes of the run's state and index, commandBytes what a command has beside its payload.
	commitBytes, commandBytes = 256, 256
	// awaitedBytes is what a handle takes for which a guest waits.
	awaitedBytes = 3
)

// Batch is one group commit.
type Batch struct {
	Groups []store.Group
	Bytes  int       // of entries, about
	slots  [][]*slot // of each run of each group
	parts  []*Partition

	picked []*slot // before the groups are made
}

// Len returns the number of runs.
func (b *Batch) Len() (n int) {
	for i := range b.Groups {
		n += len(b.Groups[i].Runs)
	}
	return n
}

// add adds the commit of a slot, and returns about how much that writes.
func (b *Batch) add(sl *slot, c *store.RunCommit) (bytes int) {
	b.picked = append(b.picked, sl)
	bytes = commitBytes + int(run.Stored(c)) + stateBytes(&c.State)
	for i := range c.Outbox {
		bytes += commandBytes + len(c.Outbox[i].Data)
	}
	b.Bytes += bytes
	return bytes
}

// stateBytes returns about how much the parts of a state take that have no bound of a few bytes.
func stateBytes(st *store.RunState) int {
	n := len(st.Memo) + len(st.Reason) + awaitedBytes*len(st.Suspension.Awaited)
	for i := range st.Attributes {
		n += len(st.Attributes[i].Key) + len(st.Attributes[i].Value)
	}
	return n
}

// group makes the groups: the commits that the slots have prepared, by partition.
func (b *Batch) group() {
	slots := b.picked
	b.picked = nil
	slices.SortStableFunc(slots, func(a, b *slot) int { return cmp.Compare(a.p.ID, b.p.ID) })
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
			commits[to] = *slots[to].Take()
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
	limit  int                                  // of those that are on their way
	flying int                                  // how many are
	ready  fairqueue.Queue[queued.Group, *slot] // slots that may have something to commit, of workflows in turn
	again  []*Batch                             // what is left of batches, one run of which was refused
}

// add has a slot looked at when the next batch is made.
func (c *commits) add(sl *slot) {
	if !sl.queued {
		sl.queued = true
		c.ready.Push(sl.group(), sl)
	}
}

// lose forgets the runs of a partition.
func (c *commits) lose(p *Partition) {
	c.ready.DeleteFunc(func(sl *slot) bool { return sl.p == p })
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
