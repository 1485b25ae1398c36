package shard

import (
	"errors"
	"slices"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// committer builds batches and handles their results.
type committer struct {
	port Port
	mem  *memory
}

// batch returns the next group commit, nil if there is nothing to commit or the limit of commits in flight is reached.
func (c *committer) batch(now int64) *Batch {
	queue := &c.mem.commits
	if queue.flying >= queue.limit {
		return nil
	}
	b := queue.next()
	if b == nil {
		b = &Batch{}
		for len(b.picked) == 0 && queue.ready.Len() > 0 { // settling a run without a commit may queue it again
			c.gather(now, b)
		}
		if len(b.picked) == 0 {
			return nil
		}
		b.group()
	}
	queue.flying++
	return b
}

// gather adds the commits of ready runs until the batch is full. Workflows get equal shares of a batch, in bytes.
func (c *committer) gather(now int64, b *Batch) {
	queue := &c.mem.commits
	bytes := 0
	for range queue.ready.Len() { // runs that become ready meanwhile go into the next batch
		if len(b.picked) >= store.MaxCommitRecords || bytes >= maxBatchBytes {
			return
		}
		of, rs, _ := queue.ready.Pop()
		rs.queued = false
		n := c.collect(now, b, rs)
		bytes += n
		queue.ready.Charge(of, n)
	}
}

// collect adds a run's commit to a batch, if the run has changes, and returns the commit's approximate size in bytes.
func (c *committer) collect(now int64, b *Batch, rs *resident) int {
	if rs.gone || rs.Flying() { // durable settles the run when its commit in flight is durable
		return 0
	}
	rc := rs.Fly(now)
	if rc == nil {
		c.mem.settle(now, rs)
		return 0
	}
	if rs.linger != nil {
		rs.linger()
		rs.linger = nil
	}
	n := b.add(rs, rc)
	if pacer := c.mem.limits.Pacer; pacer != nil && !rc.State.Deleted { // a deletion frees room, so it is not charged
		pacer.Wrote(uint32(rs.Key.Namespace), n, now)
	}
	return n
}

// committed handles the result of a batch.
func (c *committer) committed(now int64, b *Batch, err error) {
	c.mem.commits.flying--
	if refused, ok := errors.AsType[*store.RefusedError](err); ok {
		c.refused(now, b, refused)
		return
	}
	c.kick(b)
	if err != nil {
		c.unknown(b, err)
		return
	}
	for g := range b.Groups {
		for i := range b.Groups[g].Runs {
			c.durable(now, b.residents[g][i], &b.Groups[g].Runs[i])
		}
	}
}

func (c *committer) durable(now int64, rs *resident, rc *store.RunCommit) {
	c.port.Durable(rc)
	if rs.gone {
		return // its partition was lost
	}
	delete(rs.p.unstorable, rs.Key)
	rs.cmds = slices.DeleteFunc(rs.cmds, func(cmd inboxCommand) bool { return slices.Contains(rc.Ack, cmd.Seq) })
	readAgain := rs.Durable(now, &rc.State)
	switch {
	case readAgain:
		c.port.Load(rs.p, rs.Key)
	case rs.Run == nil:
		c.mem.drop(rs)
	default:
		c.mem.settle(now, rs)
	}
}

// kick tells the receivers of a batch's commands to read their inboxes. It does so even if the shard has lost the sender's
// partition or the outcome of the commit is unknown.
func (c *committer) kick(b *Batch) {
	for g := range b.Groups {
		for i := range b.Groups[g].Runs {
			for _, cmd := range b.Groups[g].Runs[i].Outbox {
				c.port.Kick(cmd.To.Partition())
			}
		}
	}
}

// unknown gives up the partitions of a batch whose outcome is unknown, and acquires them again.
func (c *committer) unknown(b *Batch, err error) {
	for _, p := range b.parts {
		if !p.lost {
			c.mem.acquireAgain(p, err)
		}
	}
}

// refused removes the run or partition that the store refused from a batch, and queues the batch for a retry.
func (c *committer) refused(now int64, b *Batch, refused *store.RefusedError) {
	p := b.parts[refused.Group]
	if refused.Run < 0 {
		c.mem.lose(p, refused.Err)
		b.remove(p)
	} else {
		if rs := b.leaveOut(refused.Group, refused.Run); !rs.gone {
			c.port.Report(Report{Kind: ReportRefused, Run: rs.Key, Partition: p.ID, Cause: refused.Err})
			c.mem.evict(rs, refused.Err)
			if p.inbox.Return(rs.Key, rs.cmds) {
				p.wakes.Again(now, CommandTimer(rs.Key))
			}
			c.wakeAgain(now, p, rs.Key, refused.Err)
		}
		if len(b.Groups[refused.Group].Runs) == 0 {
			b.remove(p)
		}
	}
	c.mem.commits.again = append(c.mem.commits.again, b)
}

// wakeAgain schedules a retry for a run whose commit was refused, so that its wakes are not lost. If the commit is too large
// for the store, the run becomes stuck in its last durable state, with the cause as the reason. If that commit is refused too,
// or if the run is corrupt or written by another release, the run waits for another release or for an event from outside.
func (c *committer) wakeAgain(now int64, p *Partition, key store.RunKey, cause error) {
	large := errors.Is(cause, store.ErrTooLarge)
	if large && !p.unstorable[key] {
		p.unstorable[key] = true
		c.mem.deliver(now, p, key, Envelope{Event: run.Unstorable{Cause: cause}})
		return
	}
	delete(p.unstorable, key)
	if large || errors.Is(cause, store.ErrCorrupt) || errors.Is(cause, store.ErrVersion) {
		p.wakes.Remove(wakeKey(key))
		p.unreadable[key] = cause
		return
	}
	p.wakes.Again(now, wakeKey(key))
}
