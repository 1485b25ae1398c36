package partition

import (
	"container/list"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Errors that callers get, to be tested with errors.Is.
var (
	// ErrNotOwned: this host does not own the partition of the run.
	ErrNotOwned = errors.New("the run's partition is not owned by this host")
	// ErrLost: the partition was lost before the event was durable. It may have happened, or not.
	ErrLost = errors.New("the run's partition was lost")
)

// Limits of what a shard has in memory and in progress.
type Limits struct {
	// Busy bounds the runs that are woken at a time: what is due beyond that stays a key.
	Busy int
	// Starts bounds the new runs that wait for a place with all of their state; those beyond it wait as keys.
	Starts int
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
}

// Shard has some partitions, and is the one writer of their runs.
type Shard struct {
	port    Port
	limits  Limits
	handled func(name string) bool
	active  bool

	parts map[store.PartitionID]*Partition
	order []*Partition // of parts, by id
	next  int          // index of the partition that is looked at first

	kept      list.List // of *slot at rest, the most recently used first
	keptBytes int64
	busy      int            // runs that were woken and have not come to rest
	asked     int            // new runs that wait for a place
	invited   int            // new runs that waited as keys, and are read
	later     []store.RunKey // new runs that wait as keys
	ready     []*slot        // slots that may have something to commit
	flying    int            // commits that are on their way
	again     []*Batch       // what is left of commits, one run of which was refused
}

// NewShard returns a shard without partitions. handled reports whether a handler is registered.
func NewShard(port Port, limits Limits, handled func(name string) bool) *Shard {
	return &Shard{port: port, limits: limits, handled: handled, parts: map[store.PartitionID]*Partition{}}
}

// Add makes a partition the shard's, which was acquired. One that was the shard's before is given up without a word.
func (s *Shard) Add(id store.PartitionID, owned store.Partition) *Partition {
	p := newPartition(id, owned)
	s.parts[id] = p
	s.reorder()
	s.port.Kick(id) // what the host before left in the inbox
	return p
}

func (s *Shard) reorder() {
	s.order = s.order[:0]
	for _, id := range slices.Sorted(maps.Keys(s.parts)) {
		s.order = append(s.order, s.parts[id])
	}
}

// Partition returns one of the shard's partitions, nil if it is not.
func (s *Shard) Partition(id store.PartitionID) *Partition { return s.parts[id] }

// Partitions returns the shard's partitions, by id.
func (s *Shard) Partitions() []*Partition { return slices.Clone(s.order) }

// Deliver lets an event from outside happen to a run. reply, which may be nil, is called when what came of it is durable,
// or with an error at once.
func (s *Shard) Deliver(now int64, key store.RunKey, ev run.Event, reply Reply) {
	p := s.parts[key.Partition()]
	if p == nil {
		if reply != nil {
			reply(run.Answer{}, fmt.Errorf("run %q: %w", key.ID, ErrNotOwned))
		}
		return
	}
	s.deliver(now, p, key, mail{ev: ev, reply: reply})
}

func (s *Shard) deliver(now int64, p *Partition, key store.RunKey, m mail) {
	sl := p.slots[key]
	if sl == nil {
		sl = &slot{p: p, key: key}
		p.slots[key] = sl
		s.port.Load(p, key)
	}
	if sl.run == nil || sl.run.Lent() {
		sl.mail = append(sl.mail, m)
	} else {
		s.step(now, sl, m)
	}
	s.settle(now, sl)
}

// Guest lets an event of a guest happen: GuestReady, GuestYields, GuestWaits, GuestEnds or BodyEnds. What came for the run
// meanwhile happens first.
func (s *Shard) Guest(now int64, l *run.Lease, ev run.Event) {
	r := l.Run()
	sl := s.slotOf(r)
	if sl == nil {
		s.port.Order(l, run.OrderSuspend) // the run was lost; a guest that has ended does not look
		return
	}
	if r.Lent() && r.Lease() != l { // it was evicted, or left to a body, and another guest has the run
		s.port.Order(l, run.OrderSuspend)
		if e, body := ev.(run.BodyEnds); body {
			s.deliver(now, sl.p, sl.key, mail{ev: run.AttemptEnds{Attempt: e.Attempt, Outcome: e.Outcome}})
		}
		return
	}
	if r.Lent() {
		sl.yielding = false
		s.apply(now, sl, r.TakeBack(l), mail{})
		s.drain(now, sl)
		if _, yields := ev.(run.GuestYields); yields && sl.urgent && sl.prepared == nil {
			s.prepare(now, sl)
		}
	}
	s.step(now, sl, mail{ev: ev})
	if r.Begun() || !r.Running() {
		s.leaveQueue(sl)
	}
	s.drain(now, sl)
	s.settle(now, sl)
}

// slotOf returns the slot of a run, nil if it has none any more.
func (s *Shard) slotOf(r *run.Run) *slot {
	p := s.parts[r.Key().Partition()]
	if p == nil || p.slots[r.Key()] == nil || p.slots[r.Key()].run != r {
		return nil
	}
	return p.slots[r.Key()]
}

// Inside lets an event of an attempt or of a lease happen to a run in memory: AttemptEnds, AttemptLogs, Evict, Refused. One
// that is not there any more is not loaded for it.
func (s *Shard) Inside(now int64, key store.RunKey, ev run.Event) {
	if p := s.parts[key.Partition()]; p != nil && p.slots[key] != nil {
		s.deliver(now, p, key, mail{ev: ev})
		if sl := p.slots[key]; sl != nil && sl.run != nil && !sl.run.Lent() && !sl.run.Running() {
			s.leaveQueue(sl)
		}
	}
}

// drain lets what has waited for the run happen.
func (s *Shard) drain(now int64, sl *slot) {
	for len(sl.mail) > 0 && !sl.run.Lent() {
		m := sl.mail[0]
		sl.mail = sl.mail[1:]
		s.step(now, sl, m)
	}
}

// step lets an event happen to a run that is in memory and not lent.
func (s *Shard) step(now int64, sl *slot, m mail) {
	sl.touched, sl.steppedMs = true, now
	s.apply(now, sl, sl.run.Step(now, m.ev), m)
}

// apply does what needs nothing durable of the effects of a step, and keeps the rest until it is.
func (s *Shard) apply(now int64, sl *slot, fx *run.Effects, m mail) {
	for _, a := range fx.Drop {
		s.port.Drop(a)
	}
	for _, a := range fx.Tell {
		s.port.Tell(a)
	}
	for _, o := range fx.Orders {
		s.port.Order(o.Lease, o.Order)
	}
	for _, name := range fx.Missing {
		sl.p.miss(name, sl.key)
	}
	s.note(sl, fx)
	if fx.Activate != nil {
		s.activate(now, sl, fx.Activate)
	}
	if fx.Answer.Created && sl.run.Running() { // its first activation brings more
		s.port.After(s.limits.StartLinger, func(now int64) { s.lingered(now, sl) })
	} else if m.reply != nil && !m.early || len(fx.Start) > 0 || fx.Again {
		sl.urgent = true
	}
	if m.free != nil && fx.Err != nil { // there may be no commit to wait for
		m.free()
		m.free = nil
	}
	a := after{reply: m.reply, answer: fx.Answer, start: fx.Start, free: m.free, stuck: fx.Stuck != ""}
	switch {
	case m.reply == nil:
	case !m.early && errors.Is(fx.Err, run.ErrTerminal): // an end that somebody is told of is durable
		a.err, sl.urgent = fx.Err, true
	case m.early || fx.Err != nil:
		m.reply(fx.Answer, fx.Err)
		m.reply, a.reply = nil, nil
	}
	if fx.Again {
		a.again, a.reply, a.free = &m, nil, nil
	}
	if a.reply != nil || len(a.start) > 0 || a.again != nil || a.free != nil || a.stuck {
		sl.after = append(sl.after, a)
	}
}

// lingered has a start committed whose first activation takes long.
func (s *Shard) lingered(now int64, sl *slot) {
	if sl.p.slots[sl.key] == sl && sl.run.Fresh() {
		sl.urgent = true
		s.settle(now, sl)
	}
}

// activate asks for a place for a guest. New runs that would wait for long wait as keys.
func (s *Shard) activate(now int64, sl *slot, l *run.Lease) {
	if sl.run.Begun() {
		s.port.Activate(l, ClassWake)
		return
	}
	if s.asked >= s.limits.Starts && !sl.asked {
		if !slices.Contains(s.later, sl.key) {
			s.later = append(s.later, sl.key)
		}
		s.step(now, sl, mail{ev: run.Refused{Lease: l, Later: true}})
		return
	}
	if !sl.asked {
		sl.asked = true
		s.asked++
	}
	s.port.Activate(l, ClassStart)
}

// leaveQueue counts a run that no longer waits for its first place.
func (s *Shard) leaveQueue(sl *slot) {
	if sl.asked {
		sl.asked = false
		s.asked--
	}
}

// invite lets new runs ask for a place that wait as keys, as many as there is room for. Those that have to be read first
// count as if they had asked.
func (s *Shard) invite(now int64) {
	for s.asked+s.invited < s.limits.Starts && len(s.later) > 0 {
		key := s.later[0]
		s.later = s.later[1:]
		p := s.parts[key.Partition()]
		if p == nil {
			continue
		}
		s.deliver(now, p, key, mail{ev: run.Due{}})
		if sl := p.slots[key]; sl != nil && sl.run == nil && !sl.invited {
			sl.invited = true
			s.invited++
		}
	}
}

// arrived counts a run that was invited, and has been read.
func (s *Shard) arrived(sl *slot) {
	if sl.invited {
		sl.invited = false
		s.invited--
	}
}

func (s *Shard) note(sl *slot, fx *run.Effects) {
	n := Note{Run: sl.key, Partition: sl.p.ID, Workflow: sl.run.State().Workflow}
	say := func(kind NoteKind, cause error, count int) {
		n.Kind, n.Cause, n.Count = kind, cause, count
		s.port.Note(n)
	}
	if fx.Fault != nil {
		say(NoteFault, fx.Fault, 0)
	}
	if fx.LongJournal > 0 {
		say(NoteLong, nil, fx.LongJournal)
	}
	if fx.Unrecorded != nil {
		say(NoteUnrecorded, fx.Unrecorded, 0)
	}
}

// SetActive says whether guests and attempts may start. When they may, every run in memory is looked at.
func (s *Shard) SetActive(now int64, active bool) {
	s.active = active
	for _, p := range s.order {
		for _, key := range p.keys() {
			if sl := p.slots[key]; sl != nil && sl.run != nil {
				sl.run.SetActive(active)
				if active {
					s.deliver(now, p, key, mail{ev: run.Due{}})
				}
			}
		}
	}
}

// Handled has the runs looked at that wait for a handler, which is registered now.
func (s *Shard) Handled(now int64, name string) {
	for _, p := range s.order {
		for _, key := range p.missed(name) {
			s.deliver(now, p, key, mail{ev: run.Due{}})
		}
	}
}

// Running reports whether a guest of a run is there, or an attempt of a step goes on.
func (s *Shard) Running(key store.RunKey) bool {
	p := s.parts[key.Partition()]
	return p != nil && p.slots[key] != nil && p.slots[key].running()
}

// Stats is what a shard holds at the moment.
type Stats struct {
	Runs   int // with which something goes on
	Timers int
	Queued int // new runs that wait for a place
}

// Stats returns the numbers.
func (s *Shard) Stats() (n Stats) {
	n.Runs, n.Queued = s.busy, s.asked+len(s.later)
	for _, p := range s.order {
		n.Timers += p.timers.Len()
	}
	return n
}
