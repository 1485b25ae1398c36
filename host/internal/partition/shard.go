package partition

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wfhost/wfhost/host/internal/actor"
	"github.com/wfhost/wfhost/host/internal/note"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/wake"
	"github.com/wfhost/wfhost/store"
)

// Limits of what a shard has in memory and in progress.
type Limits struct {
	// Busy bounds the runs that are woken at a time, as long as each takes no longer than busy.ForMs: what is due beyond that
	// stays a key.
	Busy int
	// Starts bounds the new runs that wait for a place with all of their state; those beyond it wait as keys.
	Starts int
	// StartBytes bounds the journals of these, about: each has the run's input.
	StartBytes int64
	// KeptBytes bounds the runs that are kept in memory though nothing happens to them.
	KeptBytes int64
	// Timers bounds the timers that are loaded ahead, about: from there on it is what comes due within a second, and
	// from twice as many on, what is due.
	Timers int
	// Portion bounds the wakes of one read of the index.
	Portion int
	// Commits is how many group commits are on their way at a time: while the disk writes one, the next ones wait in its
	// queue, and it does not rest between them. A run is in one of them at most.
	Commits int
	// StartLinger is how long a start waits for its first activation, to be committed together with it.
	StartLinger time.Duration
	// Pacer says when runs may be woken; nil: when they are due.
	Pacer wake.Pacer
	Clock run.Clock // the clock of each run; nil: all have the host's
}

// Shard has some partitions, and is the one writer of their runs. Its methods are what the world says to it: each finds the
// run or the partition that is meant, and hands it on.
type Shard struct {
	port    Port
	handled func(name string) bool

	mem    *memory    // which runs are there
	commit *committer // how it becomes durable
	cmds   *commands  // what runs want of one another
	wakes  *waker     // what happens by time
}

// NewShard returns a shard without partitions. handled reports whether a handler is registered.
func NewShard(port Port, limits Limits, handled func(name string) bool) *Shard {
	mem := newMemory(port, limits)
	cmds := &commands{port: port, mem: mem}
	return &Shard{port: port, handled: handled, mem: mem, cmds: cmds, commit: &committer{port: port, mem: mem},
		wakes: &waker{port: port, mem: mem, cmds: cmds}}
}

// Add makes a partition the shard's, which was acquired. One that was the shard's before is given up without a word.
func (s *Shard) Add(id store.PartitionID, owned store.Partition) *Partition {
	p := s.mem.add(id, owned)
	s.port.Kick(id) // what the host before left in the inbox
	return p
}

// Acquired takes a partition that was acquired again after it was lost.
func (s *Shard) Acquired(id store.PartitionID, owned store.Partition) {
	s.Add(id, owned)
	s.port.Note(note.Note{Kind: note.Acquired, Partition: id})
}

// Lose drops a partition: nothing of it that is not durable becomes so. Those who wait for a commit are told why; what
// they wanted may have happened, or not.
func (s *Shard) Lose(p *Partition, cause error) { s.mem.lose(p, cause) }

// Partition returns one of the shard's partitions, nil if it is not.
func (s *Shard) Partition(id store.PartitionID) *Partition { return s.mem.parts[id] }

// Partitions returns the shard's partitions, by id.
func (s *Shard) Partitions() []*Partition { return slices.Clone(s.mem.order) }

// Config returns what runs are made with.
func (s *Shard) Config() run.Config {
	return run.Config{Handled: s.handled, Active: s.mem.active, Clock: s.mem.limits.Clock}
}

// Loaded takes a run that was read: with store.ErrNotFound there is none, and with another error it could not be read.
// state is the run's state, if at least that could be read.
func (s *Shard) Loaded(now int64, p *Partition, key store.RunKey, r *run.Run, state *store.RunState, err error) {
	sl := p.slots[key]
	if p.lost || sl == nil || sl.Run != nil {
		if s.mem.find(key) == nil { // it was lost while it was read
			s.port.Forgot(key)
		}
		return
	}
	s.mem.starts.Arrived(&sl.start)
	if errors.Is(err, store.ErrNotFound) {
		r, err = run.New(key, s.Config()), nil
	}
	if err != nil {
		s.mem.unreadable(now, sl, state, err)
		return
	}
	r.SetActive(s.mem.active)
	sl.Run = r
	delete(p.unreadable, key)
	sl.Drain(now)
	s.mem.settle(now, sl)
}

// Deliver lets an event from outside happen to a run. reply, which may be nil, is called when what came of it is durable,
// or with an error at once.
func (s *Shard) Deliver(now int64, key store.RunKey, ev run.Event, reply Reply) {
	p := s.mem.parts[key.Partition()]
	if p == nil {
		actor.Mail{Reply: reply}.Refuse(fmt.Errorf("run %q: %w", key.ID, ErrNotOwned))
		return
	}
	s.mem.deliver(now, p, key, actor.Mail{Event: ev, Reply: reply})
}

// Guest lets an event of a guest happen: GuestReady, GuestYields, GuestWaits, GuestEnds or BodyEnds. What came for the run
// meanwhile happens first.
func (s *Shard) Guest(now int64, l *run.Lease, ev run.Event) {
	r := l.Run()
	sl := s.mem.find(r.Key())
	if sl == nil || sl.Run != r {
		s.port.Order(l, run.OrderSuspend) // the run was lost; a guest that has ended does not look
		return
	}
	if r.Lent() && r.Lease() != l { // it was evicted, or left to a body, and another guest has the run
		s.port.Order(l, run.OrderSuspend)
		if e, body := ev.(run.BodyEnds); body {
			s.mem.deliverTo(now, sl, actor.Mail{Event: run.AttemptEnds{Attempt: e.Attempt, Outcome: e.Outcome}})
		}
		return
	}
	if r.Lent() {
		sl.TakeBack(now, l, ev)
	}
	if _, ready := ev.(run.GuestReady); ready {
		sl.dueMs = 0
	}
	sl.Step(now, actor.Mail{Event: ev})
	if r.Begun() || !r.Running() {
		s.mem.starts.Leave(&sl.start)
	}
	sl.Drain(now)
	s.mem.settle(now, sl)
}

// Inside lets an event of an attempt or of a lease happen to a run in memory: AttemptEnds, AttemptLogs, Evict, NotForked,
// Refused. One that is not there any more is not loaded for it. reply is as for Deliver.
func (s *Shard) Inside(now int64, key store.RunKey, ev run.Event, reply Reply) {
	sl := s.mem.find(key)
	if sl == nil {
		actor.Mail{Reply: reply}.Refuse(nil)
		return
	}
	s.mem.deliverTo(now, sl, actor.Mail{Event: ev, Reply: reply})
	if !sl.gone && sl.Run != nil && !sl.Run.Lent() && !sl.Run.Running() {
		s.mem.starts.Leave(&sl.start)
	}
}

// SetActive says whether guests and attempts may start. When they may, every run in memory is looked at.
func (s *Shard) SetActive(now int64, active bool) {
	s.mem.active = active
	for _, p := range s.mem.order {
		for _, key := range p.keys() {
			if sl := p.slots[key]; sl != nil && sl.Run != nil {
				sl.Run.SetActive(active)
				if active {
					s.mem.deliver(now, p, key, actor.Mail{Event: run.Due{}})
				}
			}
		}
	}
}

// Handled has the runs looked at that wait for a handler, which is registered now.
func (s *Shard) Handled(now int64, name string) {
	for _, p := range s.mem.order {
		for _, key := range p.missed(name) {
			if p.slots[key] == nil { // no more are read at a time than by their wakes
				p.wakes.Put(wakeKey(key), now)
				continue
			}
			s.mem.deliver(now, p, key, actor.Mail{Event: run.Due{}})
		}
	}
}

// Batch returns the next group commit, nil if there is nothing to commit or enough commits are on their way. The caller
// commits it, and hands what came of it to Committed.
func (s *Shard) Batch(now int64) *Batch { return s.commit.batch(now) }

// Committed takes what came of a batch. Without an error it is durable. A run that the store refused is dropped, and
// the others are committed without it; a partition that was fenced is lost; if nobody knows the outcome, all partitions of
// the batch are lost, and acquired again.
func (s *Shard) Committed(now int64, b *Batch, err error) { s.commit.committed(now, b, err) }

// Kicked says that there may be commands in the inbox of a partition.
func (s *Shard) Kicked(id store.PartitionID) {
	if p := s.mem.parts[id]; p != nil {
		s.cmds.kicked(p)
	}
}

// InboxRead takes commands that were read, in order.
func (s *Shard) InboxRead(now int64, p *Partition, cmds []store.Command, err error) {
	s.cmds.portion(now, p, cmds, err)
}

// Carried takes what came of Port.Carry and Port.Refuse: an error has the command tried again after a while, start is the
// run that a child's start begins. free, which may be nil, is called when that is durable, or will not be.
func (s *Shard) Carried(now int64, p *Partition, to store.RunKey, start *run.NewRun, free func(), err error) {
	s.cmds.carried(now, p, to, start, free, err)
}

// Tick wakes the runs that are due, and has wakes loaded whose time comes near. The caller calls it when Next says so, and
// whenever something has happened.
func (s *Shard) Tick(now int64) {
	s.wakes.look(now)
	if s.mem.active {
		s.wakes.invite(now)
		s.wakes.fire(now)
	}
	s.wakes.load(now)
}

// DueRead takes wakes that were read from the index, after a key and up to an instant: at most limit of them, and whether
// there are more. first is the instant of the first wake behind them, wake.Never (the largest number) if there is none.
func (s *Shard) DueRead(now int64, p *Partition, wakes []store.Wake, more bool, first int64, err error) {
	s.wakes.loaded(now, p, wakes, more, first, err)
}

// AheadRead takes some of the runs that Port.Ahead seeks, or the error for which it finds no more.
func (s *Shard) AheadRead(now int64, p *Partition, keys []store.RunKey, err error) {
	s.wakes.ahead(now, p, keys, err)
}

// Next returns the instant at which Tick has something to do, false if only an event can bring that.
func (s *Shard) Next() (unixMs int64, ok bool) {
	at := s.wakes.next()
	return at, at != wake.Never
}

// NextWake returns the instant of the first wake of all runs, false if there is none.
func (s *Shard) NextWake() (unixMs int64, ok bool) {
	at := s.wakes.first()
	return at, at != wake.Never
}

// Running reports whether a guest of a run is there, or an attempt of a step goes on.
func (s *Shard) Running(key store.RunKey) bool {
	sl := s.mem.find(key)
	return sl != nil && sl.Running()
}

// Run returns a run in memory, nil if it is not there. It must not be changed, nor used while it is lent.
func (s *Shard) Run(key store.RunKey) *run.Run {
	if sl := s.mem.find(key); sl != nil {
		return sl.Run
	}
	return nil
}

// Stats is what a shard holds at the moment.
type Stats struct {
	Runs, Timers     int   // runs are those with which something goes on
	Queued, Commands int   // new runs that wait for a place; commands in inboxes that were read and not taken
	OverdueMs        int64 // of the wake that is due longest
}

// Stats returns the numbers.
func (s *Shard) Stats(now int64) Stats {
	n := Stats{Runs: s.mem.busy.Len(), Timers: s.mem.timers(), Queued: s.mem.starts.Len()}
	for _, p := range s.mem.order {
		n.Commands += p.inbox.Waiting()
		n.OverdueMs = max(n.OverdueMs, p.wakes.OverdueMs(now))
	}
	return n
}
