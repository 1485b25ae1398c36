package partition

import (
	"errors"
	"slices"

	"github.com/wfhost/wfhost/host/internal/actor"
	"github.com/wfhost/wfhost/host/internal/inbox"
	"github.com/wfhost/wfhost/host/internal/note"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/wake"
	"github.com/wfhost/wfhost/store"
)

// committer makes the batches of what is to be committed, and takes what came of them.
type committer struct {
	port Port
	mem  *memory
}

// batch returns the next group commit, nil if there is nothing to commit or enough commits are on their way.
func (c *committer) batch(now int64) *Batch {
	queue := &c.mem.commits
	if queue.flying >= queue.limit {
		return nil
	}
	b := queue.next()
	if b == nil {
		b = &Batch{}
		for len(b.picked) == 0 && queue.ready.Len() > 0 { // a run that had nothing to commit may have by what waited for it
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

// gather adds the commits of the runs that are ready, as many as one batch holds: of each workflow as much.
func (c *committer) gather(now int64, b *Batch) {
	queue := &c.mem.commits
	bytes := 0
	for range queue.ready.Len() { // those that become ready meanwhile are for the next one
		if len(b.picked) >= store.MaxCommitRecords || bytes >= maxBatchBytes {
			return
		}
		of, sl, _ := queue.ready.Pop()
		sl.queued = false
		n := c.collect(now, b, sl)
		bytes += n
		queue.ready.Charge(of, n)
	}
}

// collect adds the commit of a run to a batch, if it has one, and returns about how much that writes.
func (c *committer) collect(now int64, b *Batch, sl *slot) int {
	if sl.gone || sl.Flying() { // it comes again when that commit is durable
		return 0
	}
	rc := sl.Fly(now)
	if rc == nil {
		c.mem.settle(now, sl)
		return 0
	}
	if sl.linger != nil {
		sl.linger()
		sl.linger = nil
	}
	n := b.add(sl, rc)
	if pacer := c.mem.limits.Pacer; pacer != nil && !rc.State.Deleted { // what frees room costs nothing
		pacer.Wrote(uint32(sl.Key.Namespace), n, now)
	}
	return n
}

// committed takes what came of a batch.
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
			c.durable(now, b.slots[g][i], &b.Groups[g].Runs[i])
		}
	}
}

func (c *committer) durable(now int64, sl *slot, rc *store.RunCommit) {
	c.port.Durable(rc)
	if sl.gone {
		return // its partition was lost
	}
	delete(sl.p.unstorable, sl.Key)
	sl.cmds = slices.DeleteFunc(sl.cmds, func(cmd inbox.Command) bool { return slices.Contains(rc.Ack, cmd.Seq) })
	readAgain := sl.Durable(now, &rc.State)
	switch {
	case readAgain:
		c.port.Load(sl.p, sl.Key)
	case sl.Run == nil:
		c.mem.drop(sl)
	default:
		c.mem.settle(now, sl)
	}
}

// kick has the receivers of the commands of a batch look, whether or not its partitions are still the shard's, and even if
// nobody knows whether it is durable.
func (c *committer) kick(b *Batch) {
	for g := range b.Groups {
		for i := range b.Groups[g].Runs {
			for _, cmd := range b.Groups[g].Runs[i].Outbox {
				c.port.Kick(cmd.To.Partition())
			}
		}
	}
}

// unknown gives up the partitions of a batch of which nobody knows whether it is durable.
func (c *committer) unknown(b *Batch, err error) {
	for _, p := range b.parts {
		if !p.lost {
			c.mem.lose(p, err)
			c.port.Acquire(p)
		}
	}
}

// refused takes what the store has refused out of a batch, which is then committed again.
func (c *committer) refused(now int64, b *Batch, refused *store.RefusedError) {
	p := b.parts[refused.Group]
	if refused.Run < 0 {
		c.mem.lose(p, refused.Err)
		b.remove(p)
	} else {
		if sl := b.leaveOut(refused.Group, refused.Run); !sl.gone {
			c.port.Note(note.Note{Kind: note.Refused, Run: sl.Key, Partition: p.ID, Cause: refused.Err})
			c.mem.evict(sl, refused.Err)
			if p.inbox.Return(sl.Key, sl.cmds) {
				p.wakes.Again(now, wake.CommandKey(sl.Key))
			}
			c.wakeAgain(now, p, sl.Key, refused.Err)
		}
		if len(b.Groups[refused.Group].Runs) == 0 {
			b.remove(p)
		}
	}
	c.mem.commits.again = append(c.mem.commits.again, b)
}

// wakeAgain has a run read again after a while whose commit was refused: its wakes are not given up. One whose commit the store
// can never take is stuck, as it was before, and the reason says so. If that cannot be stored either, or if another release has
// written the run, it waits for another release, or for an event from outside.
func (c *committer) wakeAgain(now int64, p *Partition, key store.RunKey, cause error) {
	large := errors.Is(cause, store.ErrTooLarge)
	if large && !p.unstorable[key] {
		p.unstorable[key] = true
		c.mem.deliver(now, p, key, actor.Mail{Event: run.Unstorable{Cause: cause}})
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
