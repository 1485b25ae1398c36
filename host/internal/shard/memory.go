package shard

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/wfhost/wfhost/host/internal/lru"
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

	woken   wokenRuns
	starts  startBacklog        // new runs that wait for a place
	kept    lru.List[*resident] // runs at rest that may be needed soon
	commits commits
}

func newMemory(port Port, limits Limits) *memory {
	return &memory{port: port, limits: limits, parts: map[store.PartitionID]*Partition{},
		starts: startBacklog{Limit: limits.Starts, Most: limits.StartBytes},
		kept:   lru.List[*resident]{Limit: limits.KeptBytes}, commits: commits{limit: max(limits.Commits, 1)},
		woken: wokenRuns{Limit: limits.Woken}}
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
		m.evict(p.residents[key], cause)
	}
	m.port.WithdrawPartition(p.ID)
	m.port.Report(Report{Kind: ReportLost, Partition: p.ID, Cause: cause})
}

// fenced reports whether err is store.ErrFenced, which means that another host owns the partition. If so, it drops the partition.
func (m *memory) fenced(p *Partition, err error) bool {
	if !errors.Is(err, store.ErrFenced) {
		return false
	}
	m.lose(p, err)
	return true
}

// acquireAgain drops a partition and acquires it again: what a write of it has done is unknown, and must be read.
func (m *memory) acquireAgain(p *Partition, cause error) {
	m.lose(p, cause)
	m.port.Acquire(p)
}

// find returns the resident of a run, nil if it has none.
func (m *memory) find(key store.RunKey) *resident {
	if p := m.parts[key.Partition()]; p != nil {
		return p.residents[key]
	}
	return nil
}

// resident returns a run in memory. If it is not there, it adds the run and starts loading the run.
func (m *memory) resident(p *Partition, key store.RunKey) *resident {
	rs := p.residents[key]
	if rs == nil {
		rs = newResident(m, p, key)
		m.port.Load(p, key)
	}
	return rs
}

// deliver delivers an event to a run, loading the run if it is not in memory.
func (m *memory) deliver(now int64, p *Partition, key store.RunKey, event Envelope) {
	m.deliverTo(now, m.resident(p, key), event)
}

func (m *memory) deliverTo(now int64, rs *resident, event Envelope) {
	rs.Deliver(now, event)
	m.settle(now, rs)
}

// settle must be called after each change of a resident. It arms the run's timer, queues its commit, and lets go of the run when
// it is at rest.
func (m *memory) settle(now int64, rs *resident) {
	if rs.gone {
		return
	}
	m.unkeep(rs)
	rs.p.takeDeferred(now, rs)
	if rs.Run != nil {
		if rs.Run.Lent() {
			rs.AskToYield()
			if rs.HasPrepared() { // prepared while the previous commit was in flight
				m.commits.add(rs)
			}
		} else {
			rs.let = false // used, or not needed
			rs.arm(m.active)
			if rs.Wants() {
				m.commits.add(rs)
			}
		}
	}
	if rs.woken.In() && !rs.working() {
		m.woken.Remove(&rs.woken)
	}
	if rs.atRest() {
		m.rest(now, rs)
	}
}

// rest keeps a run at rest in memory if it may be needed soon, and drops it otherwise. Above the limit of kept, it drops the
// least recently used runs.
func (m *memory) rest(now int64, rs *resident) {
	if !rs.soon(now) {
		m.drop(rs)
		return
	}
	rs.Run.Rest()
	rs.place = m.kept.Add(rs, rs.Size())
	m.port.Forgot(rs.Key) // kept has its own limit
	for last, excess := m.kept.Excess(); excess; last, excess = m.kept.Excess() {
		m.unkeep(last)
		m.drop(last)
	}
}

func (m *memory) unkeep(rs *resident) {
	if rs.place != nil {
		m.kept.Remove(rs.place)
		rs.place = nil
	}
}

// drop removes a run from memory. Its durable wake stays in memory as a timer if it is near, otherwise only in the index.
func (m *memory) drop(rs *resident) {
	m.woken.Remove(&rs.woken)
	m.starts.Leave(&rs.start)
	rs.forget()
	if rs.Run == nil || !rs.Run.Exists() {
		return
	}
	rs.p.wakes.Dropped(wakeKey(rs.Key), rs.Run.State().WakeUnixMs)
}

// evict drops a run with its guest, its attempts and its pending changes. Its callers get ErrLost and the cause.
func (m *memory) evict(rs *resident, cause error) {
	m.unkeep(rs)
	m.woken.Remove(&rs.woken)
	m.starts.Leave(&rs.start)
	m.starts.Arrived(&rs.start)
	rs.Lose(fmt.Errorf("run %q: %w: %w", rs.Key.ID, ErrLost, cause))
	rs.forget()
}

// unreadable answers the callers of a run that cannot be read. The run's wake is not lost: the read is retried later, unless
// the run needs a person or another release.
func (m *memory) unreadable(now int64, rs *resident, state *store.RunState, err error) {
	p := rs.p
	hopeless := errors.Is(err, store.ErrVersion) || errors.Is(err, store.ErrCorrupt)
	if !errors.Is(err, store.ErrClosed) {
		m.port.Report(Report{Kind: ReportUnreadable, Run: rs.Key, Partition: p.ID, Cause: err})
	}
	rs.forget()
	m.woken.Remove(&rs.woken)
	if hopeless {
		p.unreadable[rs.Key] = err
	}
	unheard := rs.Refuse(fmt.Errorf("run %q: %w", rs.Key.ID, err))
	switch {
	case errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrVersion) && state != nil && state.Status != store.Stuck:
		m.stick(now, p, rs.Key, *state, err)
	case !hopeless: // its wake may have been read from the index while the run was being read
		_, armed := p.wakes.Due(wakeKey(rs.Key))
		if !armed || unheard {
			p.wakes.Again(now, wakeKey(rs.Key))
		}
	}
}

// stick makes a run stuck because its journal cannot be read. It does not change the journal.
func (m *memory) stick(now int64, p *Partition, key store.RunKey, st store.RunState, cause error) {
	st.Status, st.Reason, st.WakeUnixMs, st.UpdatedUnixMs = store.Stuck, cause.Error(), store.NoWake, now
	rs := newResident(m, p, key)
	rs.Stick(&store.RunCommit{Run: key, Expect: st.Length, State: st})
	m.commits.add(rs)
}

// ahead returns how far ahead wakes may be loaded.
func (m *memory) ahead() int64 { return aheadMs(m.timers(), m.limits.Timers) }

func (m *memory) timers() (n int) {
	for _, p := range m.order {
		n += p.wakes.Len()
	}
	return n
}
