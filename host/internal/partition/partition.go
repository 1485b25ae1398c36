package partition

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/timers"
	"github.com/wfhost/wfhost/store"
)

// Partition is what a shard has of one partition. When the partition is lost, all of it is dropped, and a Partition that is
// acquired again begins anew: what comes for the one before is not looked at.
type Partition struct {
	ID    store.PartitionID
	Owned store.Partition // by which commits are fenced

	slots   map[store.RunKey]*slot
	timers  timers.Set[timerKey]
	front   front
	inbox   inbox
	missing map[string]map[store.RunKey]bool // runs that wait for a handler, by its name
	// unreadable holds runs that this release cannot read, with the reason. Nothing is written about them: another
	// release may be able to.
	unreadable map[store.RunKey]error
}

// timerKey is whose timer it is.
type timerKey struct {
	kind store.WakeKind
	key  store.RunKey
}

func newPartition(id store.PartitionID, owned store.Partition) *Partition {
	return &Partition{ID: id, Owned: owned, slots: map[store.RunKey]*slot{}, front: front{far: beginning},
		missing: map[string]map[store.RunKey]bool{}, unreadable: map[store.RunKey]error{}, inbox: newInbox()}
}

// keys returns the runs in memory in a fixed order.
func (p *Partition) keys() []store.RunKey {
	return slices.SortedFunc(maps.Keys(p.slots), compareKeys)
}

func compareKeys(a, b store.RunKey) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID))
}

// miss remembers that a run waits for a handler.
func (p *Partition) miss(name string, key store.RunKey) {
	if p.missing[name] == nil {
		p.missing[name] = map[store.RunKey]bool{}
	}
	p.missing[name][key] = true
}

// missed returns the runs that wait for a handler, and forgets them.
func (p *Partition) missed(name string) []store.RunKey {
	keys := slices.SortedFunc(maps.Keys(p.missing[name]), compareKeys)
	delete(p.missing, name)
	return keys
}

// readAgain is how long a run waits that could not be read, before it is read again for a wake.
const readAgain = time.Second

// Loaded takes a run that was read: with store.ErrNotFound there is none, and with another error it could not be read.
// state is the run's state, if at least that could be read.
func (s *Shard) Loaded(now int64, p *Partition, key store.RunKey, r *run.Run, state *store.RunState, err error) {
	sl := p.slots[key]
	if s.parts[p.ID] != p || sl == nil || sl.run != nil {
		return
	}
	s.loaded(sl)
	if errors.Is(err, store.ErrNotFound) {
		r, err = run.New(key, s.Config()), nil
	}
	if err != nil {
		s.cannotRead(now, sl, state, err)
		return
	}
	r.SetActive(s.active)
	sl.run = r
	delete(p.unreadable, key)
	s.drain(now, sl)
	s.settle(now, sl)
}

// Config returns what runs are made with.
func (s *Shard) Config() run.Config { return run.Config{Handled: s.handled, Active: s.active} }

// cannotRead answers those who wait for a run that cannot be read. A wake is never given up: the run is read again after a
// while, unless it needs a person, or another release.
func (s *Shard) cannotRead(now int64, sl *slot, state *store.RunState, err error) {
	p := sl.p
	hopeless := errors.Is(err, store.ErrVersion) || errors.Is(err, store.ErrCorrupt)
	waiting := sl.mail
	sl.mail = nil
	if !errors.Is(err, store.ErrClosed) {
		s.port.Note(Note{Kind: NoteUnreadable, Run: sl.key, Partition: p.ID, Cause: err})
	}
	delete(p.slots, sl.key)
	s.rested(sl)
	if hopeless {
		p.unreadable[sl.key] = err
	}
	for _, m := range waiting {
		m.refuse(fmt.Errorf("run %q: %w", sl.key.ID, err))
	}
	switch {
	case errors.Is(err, store.ErrCorrupt) && state != nil && state.Status != store.Stuck:
		s.stickUnreadable(now, p, sl.key, *state, err)
	case !hopeless && slices.ContainsFunc(waiting, func(m mail) bool { return m.reply == nil }):
		p.timers.Put(timerKey{store.WakeRun, sl.key}, now+readAgain.Milliseconds())
	}
}

// stickUnreadable leaves a run whose journal cannot be read to a person. The journal stays as it is.
func (s *Shard) stickUnreadable(now int64, p *Partition, key store.RunKey, st store.RunState, cause error) {
	st.Status, st.Reason, st.WakeUnixMs, st.UpdatedUnixMs = store.Stuck, cause.Error(), store.NoWake, now
	sl := &slot{p: p, key: key, prepared: &store.RunCommit{Run: key, Expect: st.Length, State: st}}
	p.slots[key] = sl
	s.enqueue(sl)
}

// Lose drops a partition: nothing of it that is not durable becomes so. Those who wait for a commit are told why; what
// they wanted may have happened, or not.
func (s *Shard) Lose(p *Partition, cause error) {
	if s.parts[p.ID] != p {
		return
	}
	delete(s.parts, p.ID)
	s.reorder()
	s.ready = slices.DeleteFunc(s.ready, func(sl *slot) bool { return sl.p == p })
	if s.again != nil {
		s.again.remove(p)
	}
	for _, key := range p.keys() {
		s.lose(p.slots[key], cause)
	}
	clear(p.slots)
	s.port.Note(Note{Kind: NoteLost, Partition: p.ID, Cause: cause})
}

// lose drops a run with everything that goes on with it.
func (s *Shard) lose(sl *slot, cause error) {
	s.unkeep(sl)
	s.rested(sl)
	s.loaded(sl)
	if sl.asked {
		s.leaveQueue(sl)
	}
	err := fmt.Errorf("run %q: %w: %w", sl.key.ID, ErrLost, cause)
	if sl.run != nil {
		if l := sl.run.Lease(); l != nil {
			s.port.Halt(l, err)
		}
		for _, a := range sl.run.Attempts() {
			s.port.Drop(a)
		}
	}
	for _, list := range [][]after{sl.flyDone, sl.prepDone, sl.after} {
		for _, a := range list {
			if a.again != nil {
				a.reply, a.free = a.again.reply, a.again.free
			}
			mail{reply: a.reply, free: a.free}.refuse(err)
		}
	}
	for _, m := range sl.mail {
		m.refuse(err)
	}
	sl.mail, sl.after, sl.prepDone, sl.flyDone = nil, nil, nil, nil
}

// Acquired takes a partition that was acquired again after it was lost.
func (s *Shard) Acquired(id store.PartitionID, owned store.Partition) {
	s.Add(id, owned)
	s.port.Note(Note{Kind: NoteAcquired, Partition: id})
}
