package shard

import (
	"cmp"
	"slices"

	"github.com/wfhost/wfhost/host/internal/fairqueue"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

const (
	// maxBatchBytes is the approximate maximum size of a batch. A larger batch would delay the next batch, and block the shard
	// while it is built. It has room for some three hundred commits of sleeping runs.
	maxBatchBytes = 128 << 10
	// commitBytes is the size of a run's state and index in a commit, commandBytes the size of a command without its payload.
	commitBytes, commandBytes = 256, 256
	// awaitedBytes is the size of an awaited handle.
	awaitedBytes = 3
)

// Batch is one group commit.
type Batch struct {
	Groups    []store.Group
	Bytes     int           // approximate size of everything the batch writes
	residents [][]*resident // of each run, by group
	parts     []*Partition

	picked []*resident // the residents to commit, until group builds the groups
}

// Len returns the number of runs.
func (b *Batch) Len() (n int) {
	for i := range b.Groups {
		n += len(b.Groups[i].Runs)
	}
	return n
}

// add adds a resident's commit and returns the commit's approximate size in bytes.
func (b *Batch) add(rs *resident, c *store.RunCommit) (bytes int) {
	b.picked = append(b.picked, rs)
	bytes = commitBytes + int(run.Stored(c)) + stateBytes(&c.State)
	for i := range c.Outbox {
		bytes += commandBytes + len(c.Outbox[i].Data)
	}
	b.Bytes += bytes
	return bytes
}

// stateBytes returns the approximate size of the variable-length parts of a state.
func stateBytes(st *store.RunState) int {
	n := len(st.Memo) + len(st.Reason) + awaitedBytes*len(st.Suspension.Awaited)
	for i := range st.Attributes {
		n += len(st.Attributes[i].Key) + len(st.Attributes[i].Value)
	}
	return n
}

// group takes the prepared commits of the picked residents and builds one group per partition.
func (b *Batch) group() {
	residents := b.picked
	b.picked = nil
	slices.SortStableFunc(residents, func(a, b *resident) int { return cmp.Compare(a.p.ID, b.p.ID) })
	parts := 0
	for i, rs := range residents {
		if i == 0 || rs.p != residents[i-1].p {
			parts++
		}
	}
	b.parts, b.Groups = make([]*Partition, 0, parts), make([]store.Group, 0, parts)
	b.residents = make([][]*resident, 0, parts)
	commits := make([]store.RunCommit, len(residents))
	for from := 0; from < len(residents); {
		p, to := residents[from].p, from
		for ; to < len(residents) && residents[to].p == p; to++ {
			commits[to] = *residents[to].Take()
		}
		b.parts = append(b.parts, p)
		b.Groups = append(b.Groups, store.Group{Partition: p.Owned, Runs: commits[from:to:to]})
		b.residents = append(b.residents, residents[from:to:to])
		from = to
	}
}

// remove removes a partition from the batch.
func (b *Batch) remove(p *Partition) {
	if i := slices.Index(b.parts, p); i >= 0 {
		b.parts, b.Groups = slices.Delete(b.parts, i, i+1), slices.Delete(b.Groups, i, i+1)
		b.residents = slices.Delete(b.residents, i, i+1)
	}
}

// leaveOut removes the commit of a run that the store refused, and returns the run's resident.
func (b *Batch) leaveOut(group, n int) *resident {
	rs, runs, residents := b.residents[group][n], &b.Groups[group].Runs, &b.residents[group]
	*runs, *residents = slices.Delete(*runs, n, n+1), slices.Delete(*residents, n, n+1)
	return rs
}

// commits holds the runs to commit and counts the batches in flight. A run is in at most one batch.
type commits struct {
	limit  int                                      // maximum of flying
	flying int                                      // batches in flight
	ready  fairqueue.Queue[backlogGroup, *resident] // residents that may have changes to commit; workflows take turns
	again  []*Batch                                 // batches to retry without the run or partition that the store refused
}

// add queues a resident for the next batch.
func (c *commits) add(rs *resident) {
	if !rs.queued {
		rs.queued = true
		c.ready.Push(rs.group(), rs)
	}
}

// lose removes the runs of a partition.
func (c *commits) lose(p *Partition) {
	c.ready.DeleteFunc(func(rs *resident) bool { return rs.p == p })
	for _, b := range c.again {
		b.remove(p)
	}
}

// next returns the next batch to retry, nil if there is none.
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
