package partition

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/wfhost/wfhost/host/internal/actor"
	"github.com/wfhost/wfhost/host/internal/busy"
	"github.com/wfhost/wfhost/host/internal/lru"
	"github.com/wfhost/wfhost/host/internal/note"
	"github.com/wfhost/wfhost/host/internal/queued"
	"github.com/wfhost/wfhost/host/internal/wake"
	"github.com/wfhost/wfhost/store"
)

// memory holds a shard's partitions and their runs that are working or may be needed soon. It decides which runs are loaded
// and dropped. A run's actor decides what happens to the run.
type memory struct {
	port   Port
	limits Limits
	active bool // guests and attempts may start

	parts map[store.PartitionID]*Partition
	order []*Partition // of parts, by id

	busy    busy.Set
	starts  queued.Set      // new runs that wait for a place
	kept    lru.List[*slot] // runs at rest that may be needed soon
	commits commits
}

func newMemory(port Port, limits Limits) *memory {
	return &memory{port: port, limits: limits, parts: map[store.PartitionID]*Partition{},
		starts: queued.Set{Limit: limits.Starts, Most: limits.StartBytes},
		kept:   lru.List[*slot]{Limit: limits.KeptBytes}, commits: commits{limit: max(limits.Commits, 1)},
		busy: busy.Set{Limit: limits.Busy}}
}

// add adds an acquired partition. If the shard has an older Partition with this id, add drops it without answering its callers.
func (m *memory) add(id store.PartitionID, owned store.Partition) *Partition {
	if before := m.parts[id]; before != nil {
		before.lost = true
	}
	p := newPartition(id, owned, m.limits.Pacer)
	m.parts[id] = p
	m.reorder()
	return p
}

func (m *memory) reorder() {
	m.order = m.order[:0]
	for _, id := range slices.Sorted(maps.Keys(m.parts)) {
		m.order = append(m.order, m.parts[id])
	}
}

// lose drops a partition. Its pending changes are not committed; a batch in flight may still become durable.
func (m *memory) lose(p *Partition, cause error) {
	if p.lost {
		return
	}
	p.lost = true
	delete(m.parts, p.ID)
	m.reorder()
	m.commits.lose(p)
	for _, key := range p.keys() {
		m.evict(p.slots[key], cause)
	}
	m.port.Note(note.Note{Kind: note.Lost, Partition: p.ID, Cause: cause})
}

// fenced reports whether err is store.ErrFenced, which means that another host owns the partition. If so, it drops the partition.
func (m *memory) fenced(p *Partition, err error) bool {
	if !errors.Is(err, store.ErrFenced) {
		return false
	}
	m.lose(p, err)
	return true
}

// find returns the slot of a run, nil if it has none.
func (m *memory) find(key store.RunKey) *slot {
	if p := m.parts[key.Partition()]; p != nil {
		return p.slots[key]
	}
	return nil
}

// slot returns the slot of a run. If there is none, it creates the slot and starts loading the run.
func (m *memory) slot(p *Partition, key store.RunKey) *slot {
	sl := p.slots[key]
	if sl == nil {
		sl = newSlot(m, p, key)
		m.port.Load(p, key)
	}
	return sl
}

// deliver delivers an event to a run, loading the run if it is not in memory.
func (m *memory) deliver(now int64, p *Partition, key store.RunKey, event actor.Mail) {
	m.deliverTo(now, m.slot(p, key), event)
}

func (m *memory) deliverTo(now int64, sl *slot, event actor.Mail) {
	sl.Deliver(now, event)
	m.settle(now, sl)
}

// settle must be called after each change of a slot. It arms the run's timer, queues its commit, and lets go of the run when
// it is at rest.
func (m *memory) settle(now int64, sl *slot) {
	if sl.gone {
		return
	}
	m.unkeep(sl)
	sl.p.takeLeft(now, sl)
	if sl.Run != nil {
		if sl.Run.Lent() {
			sl.AskToYield()
			if sl.HasPrepared() { // prepared while the previous commit was in flight
				m.commits.add(sl)
			}
		} else {
			sl.let = false // used, or not needed
			sl.arm(m.active)
			if sl.Wants() {
				m.commits.add(sl)
			}
		}
	}
	if sl.busy.In() && !sl.working() {
		m.busy.Remove(&sl.busy)
	}
	if sl.atRest() {
		m.rest(now, sl)
	}
}

// rest keeps a run at rest in memory if it may be needed soon, and drops it otherwise. Above the limit of kept, it drops the
// least recently used runs.
func (m *memory) rest(now int64, sl *slot) {
	if !sl.soon(now) {
		m.drop(sl)
		return
	}
	sl.Run.Rest()
	sl.place = m.kept.Add(sl, sl.Size())
	m.port.Forgot(sl.Key) // kept has its own limit
	for last, excess := m.kept.Excess(); excess; last, excess = m.kept.Excess() {
		m.unkeep(last)
		m.drop(last)
	}
}

func (m *memory) unkeep(sl *slot) {
	if sl.place != nil {
		m.kept.Remove(sl.place)
		sl.place = nil
	}
}

// drop removes a run from memory. Its durable wake stays in memory as a timer if it is near, otherwise only in the index.
func (m *memory) drop(sl *slot) {
	m.busy.Remove(&sl.busy)
	m.starts.Leave(&sl.start)
	sl.forget()
	if sl.Run == nil || !sl.Run.Exists() {
		return
	}
	st := sl.Run.State()
	if st.Status.Terminal() {
		for _, runs := range sl.p.missing {
			delete(runs, sl.Key)
		}
	}
	sl.p.wakes.Leave(wakeKey(sl.Key), st.WakeUnixMs)
}

// evict drops a run with its guest, its attempts and its pending changes. Its callers get ErrLost and the cause.
func (m *memory) evict(sl *slot, cause error) {
	m.unkeep(sl)
	m.busy.Remove(&sl.busy)
	m.starts.Leave(&sl.start)
	m.starts.Arrived(&sl.start)
	sl.Lose(fmt.Errorf("run %q: %w: %w", sl.Key.ID, ErrLost, cause))
	sl.forget()
}

// unreadable answers the callers of a run that cannot be read. The run's wake is not lost: the read is retried later, unless
// the run needs a person or another release.
func (m *memory) unreadable(now int64, sl *slot, state *store.RunState, err error) {
	p := sl.p
	hopeless := errors.Is(err, store.ErrVersion) || errors.Is(err, store.ErrCorrupt)
	if !errors.Is(err, store.ErrClosed) {
		m.port.Note(note.Note{Kind: note.Unreadable, Run: sl.Key, Partition: p.ID, Cause: err})
	}
	sl.forget()
	m.busy.Remove(&sl.busy)
	if hopeless {
		p.unreadable[sl.Key] = err
	}
	unheard := sl.Refuse(fmt.Errorf("run %q: %w", sl.Key.ID, err))
	switch {
	case errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrVersion) && state != nil && state.Status != store.Stuck:
		m.stick(now, p, sl.Key, *state, err)
	case !hopeless: // its wake may have been read from the index while the run was being read
		_, armed := p.wakes.Due(wakeKey(sl.Key))
		if !armed || unheard {
			p.wakes.Again(now, wakeKey(sl.Key))
		}
	}
}

// stick makes a run stuck because its journal cannot be read. It does not change the journal.
func (m *memory) stick(now int64, p *Partition, key store.RunKey, st store.RunState, cause error) {
	st.Status, st.Reason, st.WakeUnixMs, st.UpdatedUnixMs = store.Stuck, cause.Error(), store.NoWake, now
	sl := newSlot(m, p, key)
	sl.Stick(&store.RunCommit{Run: key, Expect: st.Length, State: st})
	m.commits.add(sl)
}

// ahead returns how far ahead wakes may be loaded.
func (m *memory) ahead() int64 { return wake.Ahead(m.timers(), m.limits.Timers) }

func (m *memory) timers() (n int) {
	for _, p := range m.order {
		n += p.wakes.Len()
	}
	return n
}
