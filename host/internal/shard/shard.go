// Package shard holds the runs of partitions in memory and decides what happens to them. A Shard has some of the
// host's partitions and is the only writer of their runs. One goroutine uses it, so it needs no locks. It does no I/O: it
// calls its Port, which returns at once and passes the result to a method of the shard later.
//
//	events (API, timers, commands, guests, attempts)
//	   |
//	   v
//	Shard.Deliver …  ->  Run.Apply ->  effects that need no commit: Port, at once
//	   |                                effects that need a commit: kept
//	   v
//	Shard.Batch      ->  one group commit of all runs that changed; the next one gathers meanwhile
//	   |
//	   v
//	Shard.Committed  ->  the effects that were kept: answers, attempts, wakes
//
// A run whose timer is due may have to wait before it computes. In this order:
//
//   - for its namespace's quota of wakes and of written bytes, as a key: pacedwakes.go asks the WakePacer (package limits);
//   - for woken runs to come to rest, if there are too many, as a key: waker.go and wokenruns.go;
//   - for room for its journal, before it is loaded: admission.Journals, which Port.Load asks;
//   - for a place to compute: admission.Place. A new run waits as a key in startbacklog.go until then;
//   - for a trial alone, if it has crashed the process: package quarantine.
//
// The attempts of its steps wait elsewhere: package handler, or limits if the handler has limits.
//
// A partition is the unit of ownership. It is acquired, may be lost to another host or by a commit whose outcome is unknown,
// and may be acquired again. The shard's other partitions continue meanwhile. An error of a run affects only that run.
package shard

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Limits bound what a shard holds in memory and has in flight.
type Limits struct {
	// Woken is the maximum of woken runs that have not come to rest. A run counts for at most freshMs. Further due
	// runs wait as keys and are not loaded.
	Woken int
	// Starts is the maximum of new runs that wait for a place with their state in memory. Further new runs wait as keys.
	Starts int
	// StartBytes is the approximate maximum size of the journals of these runs. Each journal has the run's input.
	StartBytes int64
	// KeptBytes is the maximum size of the runs that are kept in memory at rest.
	KeptBytes int64
	// Timers is the approximate limit of timers in memory. Above it the shard loads only wakes that are due within a second,
	// and above twice the limit only wakes that are due, of partitions whose loaded wakes have fired.
	Timers int
	// Portion is the maximum number of wakes per read of the index.
	Portion int
	// Commits is the maximum of group commits in flight. While the disk writes one, the next ones wait in its queue, so it is
	// never idle between them. A run is in at most one of them.
	Commits int
	// StartLinger is how long a start waits for its first activation, to be committed together with it.
	StartLinger time.Duration
	// Pacer delays the wakes of runs; nil delays none.
	Pacer WakePacer
	Clock run.Clock // returns the clock of a run; nil: all runs use the host's clock
}

// Shard has some partitions and is the only writer of their runs. Each of its methods finds the run or partition concerned and
// passes the call on.
type Shard struct {
	port Port

	mem    *memory    // the loaded runs
	commit *committer // group commits
	cmds   *commands  // commands between runs
	wakes  *waker     // timers
}

// New returns a shard without partitions.
func New(port Port, limits Limits) *Shard {
	mem := newMemory(port, limits)
	cmds := &commands{port: port, mem: mem}
	return &Shard{port: port, mem: mem, cmds: cmds, commit: &committer{port: port, mem: mem},
		wakes: &waker{port: port, mem: mem, cmds: cmds}}
}

// Add adds an acquired partition. If the shard has an older Partition with this id, Add drops it without answering its callers.
func (s *Shard) Add(id store.PartitionID, owned store.Partition) *Partition {
	p := s.mem.add(id, owned)
	s.port.Kick(id) // the previous owner may have left commands in the inbox
	return p
}

// Acquired adds a partition like Add, and reports ReportAcquired.
func (s *Shard) Acquired(id store.PartitionID, owned store.Partition) {
	s.Add(id, owned)
	s.port.Report(Report{Kind: ReportAcquired, Partition: id})
}

// Lose drops a partition. Its pending changes are not committed. Callers that wait for a commit get ErrLost and the cause; if
// the commit is in flight, their event may be durable all the same.
func (s *Shard) Lose(p *Partition, cause error) { s.mem.lose(p, cause) }

// Resting reports whether the partition can be given away without disturbing a run: none of its runs computes, has an attempt in
// flight, or a change that is not durable. Runs that wait for their first place have nothing to lose.
func (p *Partition) Resting() bool {
	for _, rs := range p.residents {
		queues := rs.start.Asked() && rs.linger == nil && !rs.flying
		if rs.Run != nil && !rs.atRest() && !queues {
			return false
		}
	}
	return true
}

// Partition returns a partition of the shard, nil if the shard does not have it.
func (s *Shard) Partition(id store.PartitionID) *Partition { return s.mem.parts[id] }

// Partitions returns the shard's partitions, by id.
func (s *Shard) Partitions() []*Partition { return slices.Clone(s.mem.order) }

// Config returns the configuration for new and loaded runs.
func (s *Shard) Config() run.Config {
	return run.Config{Ask: s.port.Ask, Active: s.mem.active, Clock: s.mem.limits.Clock}
}

// Loaded handles the result of Port.Load. store.ErrNotFound means that there is no such run; with any other error the run
// could not be read. state is the run's state if only the state could be read, else nil.
func (s *Shard) Loaded(now int64, p *Partition, key store.RunKey, r *run.Run, state *store.RunState, err error) {
	rs := p.residents[key]
	if p.lost || rs == nil || rs.Run != nil {
		if s.mem.find(key) == nil { // the partition was lost during the read
			s.port.Forgot(key)
		}
		return
	}
	s.mem.starts.Arrived(&rs.start)
	if errors.Is(err, store.ErrNotFound) {
		r, err = run.New(key, s.Config()), nil
	}
	if err != nil {
		s.mem.unreadable(now, rs, state, err)
		return
	}
	r.SetActive(s.mem.active)
	rs.Run = r
	delete(p.unreadable, key)
	rs.Drain(now)
	s.mem.settle(now, rs)
}

// Deliver delivers an event from outside to a run. It calls reply, which may be nil, when the effect of the event is durable,
// or with an error at once.
func (s *Shard) Deliver(now int64, key store.RunKey, ev run.Event, reply Reply) {
	p := s.mem.parts[key.Partition()]
	if p == nil {
		Envelope{Reply: reply}.Refuse(fmt.Errorf("run %q: %w", key.ID, ErrNotOwned))
		return
	}
	s.mem.deliver(now, p, key, Envelope{Event: ev, Reply: reply})
}

// Guest delivers an event of a guest to its run: GuestReady, GuestYields, GuestWaits, GuestEnds or BodyEnds. Events that
// arrived while the guest had the run come first.
func (s *Shard) Guest(now int64, l *run.Lease, ev run.Event) {
	r := l.Run()
	rs := s.mem.find(r.Key())
	if rs == nil || rs.Run != r {
		s.port.Order(l, run.OrderSuspend) // the run was lost; a guest that has ended ignores the order
		return
	}
	if r.Lent() && r.Lease() != l { // the guest was evicted or executes a body, and another guest has the run
		s.port.Order(l, run.OrderSuspend)
		if e, body := ev.(run.BodyEnds); body {
			s.mem.deliverTo(now, rs, Envelope{Event: run.AttemptEnds{Attempt: e.Attempt, Outcome: e.Outcome}})
		}
		return
	}
	if r.Lent() {
		rs.TakeBack(now, l, ev)
	}
	if _, ready := ev.(run.GuestReady); ready {
		rs.dueMs = 0
	}
	rs.Apply(now, Envelope{Event: ev})
	if r.Begun() || !r.Running() {
		s.mem.starts.Leave(&rs.start)
	}
	rs.Drain(now)
	s.mem.settle(now, rs)
}

// Inside delivers an event of an attempt or lease to a run in memory: AttemptEnds, AttemptLogs, Evict, NotForked or Refused. It
// does not load the run; if the run has left memory, reply is called with a nil error. reply is as for Deliver.
func (s *Shard) Inside(now int64, key store.RunKey, ev run.Event, reply Reply) {
	rs := s.mem.find(key)
	if rs == nil {
		Envelope{Reply: reply}.Refuse(nil)
		return
	}
	s.mem.deliverTo(now, rs, Envelope{Event: ev, Reply: reply})
	if !rs.gone && rs.Run != nil && !rs.Run.Lent() && !rs.Run.Running() {
		s.mem.starts.Leave(&rs.start)
	}
}

// SetActive sets whether guests and attempts may start. When they may, it applies run.Due to every run in memory.
func (s *Shard) SetActive(now int64, active bool) {
	s.mem.active = active
	for _, p := range s.mem.order {
		for _, key := range p.keys() {
			if rs := p.residents[key]; rs != nil && rs.Run != nil {
				rs.Run.SetActive(active)
				if active {
					s.mem.deliver(now, p, key, Envelope{Event: run.Due{}})
				}
			}
		}
	}
}

// Admitted gives the next attempt of a run's step a place. It loads the run if it is not in memory.
func (s *Shard) Admitted(now int64, key store.RunKey, ev run.Admitted) {
	p := s.mem.parts[key.Partition()]
	back := func(err error) {
		if err != nil && ev.Place != nil { // the run has not seen it
			s.port.Return(ev.Place)
		}
	}
	if p == nil {
		back(ErrNotOwned)
		return
	}
	s.mem.deliver(now, p, key, Envelope{Event: ev, Early: true, Reply: func(_ run.Answer, err error) { back(err) }})
}

// Queued tells a run that the attempt of a step waits for its turn, after the verdict run.Soon.
func (s *Shard) Queued(now int64, key store.RunKey, handle int64) {
	s.Inside(now, key, run.Queued{Handle: handle}, nil)
}

// Batch returns the next group commit, nil if there is nothing to commit or Limits.Commits are in flight. The caller commits
// it and passes the result to Committed.
func (s *Shard) Batch(now int64) *Batch { return s.commit.batch(now) }

// Committed handles the result of a batch. Without an error the batch is durable. If the store refused a run, the run is
// dropped and the rest of the batch is committed again. A fenced partition is lost. If the outcome is unknown, all partitions
// of the batch are lost and acquired again.
func (s *Shard) Committed(now int64, b *Batch, err error) { s.commit.committed(now, b, err) }

// Kicked reads the inbox of a partition, which may have new commands.
func (s *Shard) Kicked(id store.PartitionID) {
	if p := s.mem.parts[id]; p != nil {
		s.cmds.kicked(p)
	}
}

// InboxRead handles the result of Port.Inbox. cmds are in order.
func (s *Shard) InboxRead(now int64, p *Partition, cmds []store.Command, err error) {
	s.cmds.portion(now, p, cmds, err)
}

// Carried handles the result of Port.Carry or Port.Refuse. With an error the command is retried later. start is the child to
// start, if the command is the start of a child. free, which may be nil, is called when the start is durable or has failed.
func (s *Shard) Carried(now int64, p *Partition, to store.RunKey, start *run.NewRun, free func(), err error) {
	s.cmds.carried(now, p, to, start, free, err)
}

// Tick wakes the runs that are due and starts reads of the wakes that are near. The caller calls it at the instant of Next and
// after each event.
func (s *Shard) Tick(now int64) {
	s.wakes.checkClock(now)
	if s.mem.active {
		s.wakes.invite(now)
		s.wakes.fire(now)
	}
	s.wakes.load(now)
}

// DueRead handles the result of Port.Due. more reports whether the read stopped at its limit. first is the instant of the first
// wake behind the ones read, Never (the largest number) if there is none.
func (s *Shard) DueRead(now int64, p *Partition, wakes []store.Wake, more bool, first int64, err error) {
	s.wakes.loaded(now, p, wakes, more, first, err)
}

// AheadRead handles a portion of the runs that Port.Ahead found, or the error that ended its search.
func (s *Shard) AheadRead(now int64, p *Partition, keys []store.RunKey, err error) {
	s.wakes.ahead(now, p, keys, err)
}

// Next returns the instant of the next Tick, false if no Tick is needed before the next event.
func (s *Shard) Next() (unixMs int64, ok bool) {
	at := s.wakes.next()
	return at, at != Never
}

// NextWake returns the instant of the first wake of all runs, false if there is none.
func (s *Shard) NextWake() (unixMs int64, ok bool) {
	at := s.wakes.first()
	return at, at != Never
}

// Running reports whether a run has a guest or an attempt in flight.
func (s *Shard) Running(key store.RunKey) bool {
	rs := s.mem.find(key)
	return rs != nil && rs.Running()
}

// Run returns a run in memory, nil if it is not loaded. The caller must not change it, nor use it while it is lent to a guest.
func (s *Shard) Run(key store.RunKey) *run.Run {
	if rs := s.mem.find(key); rs != nil {
		return rs.Run
	}
	return nil
}

// Stats are the gauges of a shard.
type Stats struct {
	Runs, Timers     int   // Runs counts woken runs that have not come to rest
	Queued, Commands int   // new runs that wait for a place; commands that were read from inboxes and not taken yet
	OverdueMs        int64 // how long the oldest due wake has been due
}

// Stats returns the shard's gauges.
func (s *Shard) Stats(now int64) Stats {
	n := Stats{Runs: s.mem.woken.Len(), Timers: s.mem.timers(), Queued: s.mem.starts.Len()}
	for _, p := range s.mem.order {
		n.Commands += p.inbox.Waiting()
		n.OverdueMs = max(n.OverdueMs, p.wakes.OverdueMs(now))
	}
	return n
}
