package partition

import (
	"errors"
	"slices"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// maxBatchBytes bounds what one batch writes, about: a larger one holds up what comes behind it.
const maxBatchBytes = 4 << 20

// Batch is one group commit.
type Batch struct {
	Groups []store.Group
	slots  [][]*slot // of each run of each group
	parts  []*Partition
}

// Len returns the number of runs.
func (b *Batch) Len() (n int) {
	for i := range b.Groups {
		n += len(b.Groups[i].Runs)
	}
	return n
}

func (b *Batch) add(sl *slot, c store.RunCommit) {
	i := slices.Index(b.parts, sl.p)
	if i < 0 {
		i = len(b.parts)
		b.parts = append(b.parts, sl.p)
		b.Groups = append(b.Groups, store.Group{Partition: sl.p.Owned})
		b.slots = append(b.slots, nil)
	}
	b.Groups[i].Runs = append(b.Groups[i].Runs, c)
	b.slots[i] = append(b.slots[i], sl)
}

// remove takes a partition out.
func (b *Batch) remove(p *Partition) {
	if i := slices.Index(b.parts, p); i >= 0 {
		b.parts, b.Groups, b.slots = slices.Delete(b.parts, i, i+1), slices.Delete(b.Groups, i, i+1), slices.Delete(b.slots, i, i+1)
	}
}

// Batch returns the next group commit, nil if there is nothing to commit or enough commits are on their way. The caller
// commits it, and hands what came of it to Committed.
func (s *Shard) Batch(now int64) *Batch {
	if s.flying >= max(s.limits.Commits, 1) {
		return nil
	}
	for len(s.again) > 0 {
		b := s.again[0]
		s.again = s.again[1:]
		if b.Len() > 0 {
			s.flying++
			return b
		}
	}
	b := &Batch{}
	for b.Len() == 0 && len(s.ready) > 0 { // a run that had nothing to commit may have by what waited for it
		s.gather(now, b)
	}
	if b.Len() == 0 {
		return nil
	}
	s.flying++
	return b
}

// gather adds the commits of the runs that are ready, as many as one batch holds.
func (s *Shard) gather(now int64, b *Batch) {
	bytes := 0
	ready := s.ready
	s.ready = nil
	for i, sl := range ready {
		if b.Len() >= store.MaxCommitRecords || bytes >= maxBatchBytes {
			s.ready = append(ready[i:], s.ready...)
			break
		}
		sl.queued = false
		bytes += s.collect(now, b, sl)
	}
}

// collect adds the commit of a run to a batch, if it has one, and returns about how much that writes.
func (s *Shard) collect(now int64, b *Batch, sl *slot) int {
	if sl.p.slots[sl.key] != sl || sl.flying { // it comes again when that commit is durable
		return 0
	}
	if sl.prepared == nil && !sl.run.Lent() && (sl.urgent || sl.touched && sl.run.Wants()) {
		s.prepare(now, sl)
	}
	c := sl.prepared
	if c == nil {
		s.settle(now, sl)
		return 0
	}
	sl.prepared, sl.flying = nil, true
	sl.flyDone, sl.prepDone = sl.prepDone, nil
	b.add(sl, *c)
	n := 0
	for i := range c.Append {
		n += len(c.Append[i].Input) + len(c.Append[i].Data) + 64
	}
	return n
}

// prepare makes the commit of a run that is not lent. Where nothing has changed, what waits for it waits for the commit
// before, or is done.
func (s *Shard) prepare(now int64, sl *slot) {
	continued := sl.run.Continued()
	c, ok := sl.run.Prepare(now)
	done := sl.after
	sl.after, sl.urgent, sl.touched = nil, false, false
	switch {
	case ok:
		sl.prepared, sl.prepDone = &c, done
		s.enqueue(sl)
	case sl.flying:
		sl.flyDone = append(sl.flyDone, done...)
	default:
		st := sl.run.State()
		s.finish(now, sl, done, &st)
	}
	if continued { // the next iteration may begin
		s.step(now, sl, mail{ev: run.Due{}})
	}
}

// finish does what was kept until it is durable. st is the run's state as of the commit that made it so: another one may
// have been prepared since, and the run may have been replaced.
func (s *Shard) finish(now int64, sl *slot, done []after, state *store.RunState) {
	for _, a := range done {
		if a.free != nil {
			a.free()
		}
		if st := sl.run.State(); a.stuck && st.Status == store.Stuck { // else it was retried meanwhile
			s.noteStuck(sl, &st)
		}
		if a.reply != nil && a.err != nil {
			a.reply(run.Answer{}, a.err)
		} else if a.reply != nil {
			st := *state
			if live := !st.Status.Terminal() && !st.Status.Attention(); live && sl.running() {
				st.Status, st.Reason = store.Running, ""
			}
			a.answer.State = &st
			a.reply(a.answer, nil)
		}
		if len(a.start) > 0 && sl.run.Lent() { // which of them go on is known when the guest yields
			sl.mail = append(sl.mail, mail{ev: run.Launch{Attempts: a.start}})
			a.start = nil
		}
		for _, attempt := range a.start {
			if sl.run.Has(attempt) { // else the run was ended meanwhile
				s.port.Start(attempt)
			}
		}
		if a.again == nil {
			continue
		}
		if _, start := a.again.ev.(run.Start); start && !sl.run.Lent() && sl.run.Over() { // else another start was faster
			sl.run = sl.run.Successor()
			s.leaveQueue(sl) // the run before may have asked for a place
		}
		if sl.run.Lent() {
			sl.mail = append(sl.mail, *a.again)
		} else {
			s.step(now, sl, *a.again)
		}
	}
}

// Committed takes what came of a batch. Without an error it is durable. A run that the store refused is dropped, and
// the others are committed without it; a partition that was fenced is lost; if nobody knows the outcome, all partitions of
// the batch are lost, and acquired again.
func (s *Shard) Committed(now int64, b *Batch, err error) {
	s.flying--
	if refused, ok := errors.AsType[*store.RefusedError](err); ok {
		s.refused(now, b, refused)
		return
	}
	s.kick(b)
	if err != nil {
		s.unknown(b, err)
		return
	}
	for g := range b.Groups {
		for i := range b.Groups[g].Runs {
			s.durable(now, b.slots[g][i], &b.Groups[g].Runs[i])
		}
	}
}

func (s *Shard) durable(now int64, sl *slot, c *store.RunCommit) {
	s.port.Durable(c)
	if sl.p.slots[sl.key] != sl {
		return // its partition was lost
	}
	sl.cmds = slices.DeleteFunc(sl.cmds, func(cmd command) bool { return slices.Contains(c.Ack, cmd.Seq) })
	done := sl.flyDone
	sl.flying, sl.flyDone = false, nil
	if sl.run == nil { // it could not be read, and is stuck by now
		s.noteStuck(sl, &c.State)
		if len(sl.mail) > 0 {
			s.port.Load(sl.p, sl.key) // which says so to those that have come since
		} else {
			s.drop(now, sl)
		}
		return
	}
	s.finish(now, sl, done, &c.State)
	s.settle(now, sl)
}

func (s *Shard) noteStuck(sl *slot, st *store.RunState) {
	s.port.Note(Note{Kind: NoteStuck, Run: sl.key, Partition: sl.p.ID, Workflow: st.Workflow, State: st})
}

// kick has the receivers of the commands of a batch look, whether or not its partitions are still the shard's, and even if
// nobody knows whether it is durable.
func (s *Shard) kick(b *Batch) {
	for g := range b.Groups {
		for i := range b.Groups[g].Runs {
			for _, cmd := range b.Groups[g].Runs[i].Outbox {
				s.port.Kick(cmd.To.Partition())
			}
		}
	}
}

// unknown gives up the partitions of a batch of which nobody knows whether it is durable.
func (s *Shard) unknown(b *Batch, err error) {
	for _, p := range b.parts {
		if s.parts[p.ID] == p {
			s.Lose(p, err)
			s.port.Acquire(p)
		}
	}
}

// refused takes what the store has refused out of a batch, which is then committed again.
func (s *Shard) refused(now int64, b *Batch, refused *store.RefusedError) {
	p := b.parts[refused.Group]
	if refused.Run < 0 {
		s.Lose(p, refused.Err)
		b.remove(p)
	} else {
		sl := b.slots[refused.Group][refused.Run]
		b.Groups[refused.Group].Runs = slices.Delete(b.Groups[refused.Group].Runs, refused.Run, refused.Run+1)
		b.slots[refused.Group] = slices.Delete(b.slots[refused.Group], refused.Run, refused.Run+1)
		if p.slots[sl.key] == sl {
			s.port.Note(Note{Kind: NoteRefused, Run: sl.key, Partition: p.ID, Cause: refused.Err})
			s.lose(sl, refused.Err)
			delete(p.slots, sl.key)
			s.takeAgain(now, p, sl.key, sl.cmds)
			s.refusedRun(now, p, sl.key, refused.Err)
		}
		if len(b.Groups[refused.Group].Runs) == 0 {
			b.remove(p)
		}
	}
	s.again = append(s.again, b)
}

// refusedRun has a run read again after a while whose commit was refused: its wakes are not given up. One that the store
// will never take waits for another release, or for an event from outside.
func (s *Shard) refusedRun(now int64, p *Partition, key store.RunKey, cause error) {
	k := timerKey{store.WakeRun, key}
	if errors.Is(cause, store.ErrTooLarge) || errors.Is(cause, store.ErrCorrupt) || errors.Is(cause, store.ErrVersion) {
		p.timers.Remove(k)
		p.unreadable[key] = cause
		return
	}
	p.timers.Put(k, now+readAgain.Milliseconds())
}
