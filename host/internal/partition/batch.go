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

// Batch returns the next group commit, nil if there is nothing to commit or one is on its way. The caller commits it, and
// hands what came of it to Committed.
func (s *Shard) Batch(now int64) *Batch {
	if s.flying != nil {
		return nil
	}
	if b := s.again; b != nil {
		s.again = nil
		if b.Len() > 0 {
			s.flying = b
			return b
		}
	}
	b := &Batch{}
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
	if b.Len() == 0 {
		return nil
	}
	s.flying = b
	return b
}

// collect adds the commit of a run to a batch, if it has one, and returns about how much that writes.
func (s *Shard) collect(now int64, b *Batch, sl *slot) int {
	if sl.p.slots[sl.key] != sl {
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
		s.finish(now, sl, done)
	}
	if continued { // the next iteration may begin
		s.step(now, sl, mail{ev: run.Due{}})
	}
}

// finish does what was kept until it is durable.
func (s *Shard) finish(now int64, sl *slot, done []after) {
	for _, a := range done {
		if a.free != nil {
			a.free()
		}
		if st := sl.run.State(); a.stuck && st.Status == store.Stuck { // else it was retried meanwhile
			s.noteStuck(sl, &st)
		}
		if a.reply != nil {
			a.answer.State = sl.run.State()
			if live := !a.answer.State.Status.Terminal() && !a.answer.State.Status.Attention(); live && sl.running() {
				a.answer.State.Status, a.answer.State.Reason = store.Running, ""
			}
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
		if _, start := a.again.ev.(run.Start); start && !sl.run.Lent() {
			sl.run = sl.run.Successor()
		}
		if sl.run.Lent() {
			sl.mail = append(sl.mail, *a.again)
		} else {
			s.step(now, sl, *a.again)
		}
	}
}

// Committed takes what came of the batch. Without an error it is durable. A run that the store refused is dropped, and
// the others are committed without it; a partition that was fenced is lost; if nobody knows the outcome, all partitions of
// the batch are lost, and acquired again.
func (s *Shard) Committed(now int64, err error) {
	b := s.flying
	s.flying = nil
	if err != nil {
		s.refused(b, err)
		return
	}
	for g := range b.Groups {
		if s.parts[b.parts[g].ID] != b.parts[g] {
			continue
		}
		for i := range b.Groups[g].Runs {
			s.durable(now, b.slots[g][i], &b.Groups[g].Runs[i])
		}
	}
}

func (s *Shard) durable(now int64, sl *slot, c *store.RunCommit) {
	s.port.Durable(c)
	for i := range c.Outbox {
		s.port.Kick(c.Outbox[i].To.Partition())
	}
	if sl.p.slots[sl.key] != sl {
		return
	}
	done := sl.flyDone
	sl.flying, sl.flyDone = false, nil
	if sl.run == nil { // it could not be read, and is stuck by now
		s.noteStuck(sl, &c.State)
		s.drop(now, sl)
		return
	}
	s.finish(now, sl, done)
	s.settle(now, sl)
}

func (s *Shard) noteStuck(sl *slot, st *store.RunState) {
	s.port.Note(Note{Kind: NoteStuck, Run: sl.key, Partition: sl.p.ID, Workflow: st.Workflow, State: st})
}

func (s *Shard) refused(b *Batch, err error) {
	var refused *store.RefusedError
	if !errors.As(err, &refused) {
		for _, p := range b.parts {
			if s.parts[p.ID] == p {
				s.Lose(p, err)
				s.port.Acquire(p)
			}
		}
		return
	}
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
			p.timers.Remove(timerKey{store.WakeRun, sl.key})
			p.unreadable[sl.key] = refused.Err
		}
		if len(b.Groups[refused.Group].Runs) == 0 {
			b.remove(p)
		}
	}
	s.again = b
}
