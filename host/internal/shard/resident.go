package shard

import (
	"errors"
	"math"

	"github.com/wfhost/wfhost/host/internal/lru"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Errors that callers get. Test for them with errors.Is.
var (
	// ErrNotOwned: this host does not own the partition of the run.
	ErrNotOwned = errors.New("the run's partition is not owned by this host")
	// ErrLost: the partition was lost before the event was acknowledged. The event may be durable or not.
	ErrLost = errors.New("the run's partition was lost")
)

// resident is a run in memory. It owns the run's actor and holds the run's membership in the shard's sets and queues.
type resident struct {
	actor
	p   *Partition
	mem *memory

	cmds []inboxCommand // taken by the run, with effects that are not durable yet

	queued bool         // in commits.ready
	woken  wokenState   // in memory.woken: the run was woken and has not come to rest
	start  backlogState // in memory.starts: the run is new and waits for its first place

	place *lru.Item[*resident] // in memory.kept, nil if the resident is not in it

	linger func() // cancels the timer of a start that waits for its first activation; nil if there is none

	armed   bool  // wakesMs is valid
	paced   bool  // the pacer makes the run wait, and the run's timer is the end of that wait
	let     bool  // the pacer has made the run wait and has let it go
	dueMs   int64 // since when the run has waited for the pacer and then for a place; 0: it does not wait
	wakesMs int64 // the instant of the run's timer, Never if it has none
	gone    bool  // removed from the partition
}

// newResident adds a resident for a run to its partition.
func newResident(m *memory, p *Partition, key store.RunKey) *resident {
	rs := &resident{p: p, mem: m}
	rs.actor = newActor(m.port, rs, key)
	p.residents[key] = rs
	return rs
}

// forget removes a resident from its partition.
func (rs *resident) forget() {
	delete(rs.p.residents, rs.Key)
	rs.gone = true
	rs.mem.port.Forgot(rs.Key)
}

// group returns the run's group in fair queues: its namespace, and its workflow if the run is loaded.
func (rs *resident) group() backlogGroup {
	g := backlogGroup{Namespace: rs.Key.Namespace}
	if rs.Run != nil {
		g.Workflow = rs.Run.State().Workflow
	}
	return g
}

// working reports whether the run has work in progress that ends without an event from outside.
func (rs *resident) working() bool { return rs.queued || rs.Working() }

// atRest reports whether the resident can be dropped without losing anything.
func (rs *resident) atRest() bool { return !rs.queued && rs.AtRest() }

// soon reports whether a run at rest may be needed soon: it is live, and it wakes within loadAheadMs or waits for an event
// other than a timer.
func (rs *resident) soon(now int64) bool {
	if !rs.Run.Exists() {
		return false
	}
	st := rs.Run.State()
	if st.Status.Terminal() || st.Status.Attention() {
		return false
	}
	if st.WakeUnixMs == store.NoWake {
		return true
	}
	if st.Status == store.Waiting && st.WakeUnixMs <= now { // its steps wait for places; their turn may come in an hour
		return false
	}
	return st.WakeUnixMs-now <= loadAheadMs
}

// wakeKey returns the timer key of a run.
func wakeKey(key store.RunKey) TimerKey { return TimerKey{Kind: store.WakeRun, Run: key} }

// arm sets the timer of a run in memory. A run has at most one timer.
func (rs *resident) arm(active bool) {
	if rs.paced {
		return
	}
	since := rs.AppliedMs // the run has processed what was due by then
	if !active {          // no timer fires now, so wakes that are due must stay due until the shard is active again
		since = math.MinInt64
	}
	at, ok := rs.Run.NextWake(since)
	if !ok {
		at = Never
	}
	if rs.armed && rs.wakesMs == at { // most events do not change it
		return
	}
	rs.armed, rs.wakesMs = true, at
	if ok {
		rs.p.wakes.Put(wakeKey(rs.Key), at)
	} else {
		rs.p.wakes.Remove(wakeKey(rs.Key))
	}
}

// Activate requests a place for a guest. If the pacer makes the run wait, or if the run is new and starts is full, it refuses
// the lease for now, and the run waits as a timer or as a key.
func (rs *resident) Activate(now int64, l *run.Lease) {
	of := rs.group()
	let, due := rs.let, rs.dueMs
	rs.let = false
	if due == 0 {
		due = now
	}
	if !let && rs.p.wakes.Pace(now, wakeKey(rs.Key), due) {
		rs.paced, rs.dueMs = true, due
		rs.Apply(now, Envelope{Event: run.Refused{Lease: l, Later: true}})
		return
	}
	if rs.paced { // the wait for the pacer is over: the timer is the run's wake again
		rs.paced, rs.armed = false, false
	}
	switch {
	case rs.Run.Begun():
		rs.mem.port.Activate(l, ClassWake)
	case rs.mem.starts.Ask(of, rs.Key, &rs.start, rs.Run.Journal().Bytes()):
		rs.mem.port.Activate(l, ClassStart)
	default:
		rs.Apply(now, Envelope{Event: run.Refused{Lease: l, Later: true}})
	}
}

// Created commits a start without its first activation if the activation takes longer than StartLinger.
func (rs *resident) Created() {
	rs.linger = rs.mem.port.After(rs.mem.limits.StartLinger, func(now int64) {
		if !rs.gone && rs.Hurry() {
			rs.mem.settle(now, rs)
		}
	})
}

// Prepared queues the run's commit for the next batch.
func (rs *resident) Prepared() { rs.mem.commits.add(rs) }

// Replaced withdraws the request for a place that the replaced run may have made.
func (rs *resident) Replaced() { rs.mem.starts.Leave(&rs.start) }

// Happened reports faults, long journals and unrecorded outcomes of steps to the port.
func (rs *resident) Happened(fx *run.Effects) {
	if fx.Fault != nil {
		rs.report(Report{Kind: ReportFault, Cause: fx.Fault})
	}
	if fx.LongJournal > 0 {
		rs.report(Report{Kind: ReportLongJournal, Count: fx.LongJournal})
	}
	if fx.Unrecorded != nil {
		rs.report(Report{Kind: ReportUnrecorded, Cause: fx.Unrecorded})
	}
}

// Stuck reports that the run is stuck.
func (rs *resident) Stuck(st *store.RunState) {
	rs.mem.port.Report(Report{Kind: ReportStuck, Run: rs.Key, Partition: rs.p.ID, Workflow: st.Workflow, State: st})
}

func (rs *resident) report(n Report) {
	n.Run, n.Partition, n.Workflow = rs.Key, rs.p.ID, rs.Run.State().Workflow
	rs.mem.port.Report(n)
}
