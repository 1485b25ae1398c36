package partition

import (
	"errors"
	"math"

	"github.com/wfhost/wfhost/host/internal/actor"
	"github.com/wfhost/wfhost/host/internal/busy"
	"github.com/wfhost/wfhost/host/internal/inbox"
	"github.com/wfhost/wfhost/host/internal/lru"
	"github.com/wfhost/wfhost/host/internal/note"
	"github.com/wfhost/wfhost/host/internal/queued"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/wake"
	"github.com/wfhost/wfhost/store"
)

// Errors that callers get. Test for them with errors.Is.
var (
	// ErrNotOwned: this host does not own the partition of the run.
	ErrNotOwned = errors.New("the run's partition is not owned by this host")
	// ErrLost: the partition was lost before the event was acknowledged. The event may be durable or not.
	ErrLost = errors.New("the run's partition was lost")
)

// Reply passes the outcome of an event to its caller. It runs on the shard's goroutine and must not block.
type Reply = actor.Reply

// slot is a run's entry in memory. It is the home of the run's actor and holds the run's membership in the shard's sets and
// queues.
type slot struct {
	actor.Actor
	p   *Partition
	mem *memory

	cmds []inbox.Command // taken by the run, with effects that are not durable yet

	queued bool        // in commits.ready
	busy   busy.Mark   // in memory.busy: the run was woken and has not come to rest
	start  queued.Mark // in memory.starts: the run is new and waits for its first place

	place *lru.Place[*slot] // in memory.kept, nil if the slot is not in it

	linger func() // cancels the timer of a start that waits for its first activation; nil if there is none

	armed   bool  // wakesMs is valid
	held    bool  // the pacer holds the run back, and the run's timer is the end of that
	let     bool  // the pacer has held the run back and has let it go
	dueMs   int64 // since when the run has waited for the pacer and then for a place; 0: it does not wait
	wakesMs int64 // the instant of the run's timer, wake.Never if it has none
	gone    bool  // removed from the partition
}

// newSlot adds a slot for a run to its partition.
func newSlot(m *memory, p *Partition, key store.RunKey) *slot {
	sl := &slot{p: p, mem: m}
	sl.Actor = actor.New(m.port, sl, key)
	p.slots[key] = sl
	return sl
}

// forget removes a slot from its partition.
func (sl *slot) forget() {
	delete(sl.p.slots, sl.Key)
	sl.gone = true
	sl.mem.port.Forgot(sl.Key)
}

// group returns the run's group in fair queues: its namespace, and its workflow if the run is loaded.
func (sl *slot) group() queued.Group {
	g := queued.Group{Namespace: sl.Key.Namespace}
	if sl.Run != nil {
		g.Workflow = sl.Run.State().Workflow
	}
	return g
}

// working reports whether the run has work in progress that ends without an event from outside.
func (sl *slot) working() bool { return sl.queued || sl.Working() }

// atRest reports whether the slot can be dropped without losing anything.
func (sl *slot) atRest() bool { return !sl.queued && sl.AtRest() }

// soon reports whether a run at rest may be needed soon: it is live, and it wakes within wake.Window or waits for an event
// other than a timer.
func (sl *slot) soon(now int64) bool {
	if !sl.Run.Exists() {
		return false
	}
	st := sl.Run.State()
	if st.Status.Terminal() || st.Status.Attention() {
		return false
	}
	return st.WakeUnixMs == store.NoWake || st.WakeUnixMs-now <= wake.Window
}

// wakeKey returns the timer key of a run.
func wakeKey(key store.RunKey) wake.Key { return wake.Key{Kind: store.WakeRun, Run: key} }

// arm sets the timer of a run in memory. A run has at most one timer.
func (sl *slot) arm(active bool) {
	if sl.held {
		return
	}
	since := sl.SteppedMs // the run has processed what was due by then
	if !active {          // no timer fires now, so wakes that are due must stay due until the shard is active again
		since = math.MinInt64
	}
	at, ok := sl.Run.NextWake(since)
	if !ok {
		at = wake.Never
	}
	if sl.armed && sl.wakesMs == at { // most steps do not change it
		return
	}
	sl.armed, sl.wakesMs = true, at
	if ok {
		sl.p.wakes.Put(wakeKey(sl.Key), at)
	} else {
		sl.p.wakes.Remove(wakeKey(sl.Key))
	}
}

// Activate requests a place for a guest. If the pacer holds the run back, or if the run is new and starts is full, it refuses
// the lease for now, and the run waits as a timer or as a key.
func (sl *slot) Activate(now int64, l *run.Lease) {
	of := sl.group()
	let, due := sl.let, sl.dueMs
	sl.let = false
	if due == 0 {
		due = now
	}
	if !let && sl.p.wakes.Hold(now, wakeKey(sl.Key), due) {
		sl.held, sl.dueMs = true, due
		sl.Step(now, actor.Mail{Event: run.Refused{Lease: l, Later: true}})
		return
	}
	if sl.held { // the pacer no longer holds it back: the timer is the run's wake again
		sl.held, sl.armed = false, false
	}
	switch {
	case sl.Run.Begun():
		sl.mem.port.Activate(l, ClassWake)
	case sl.mem.starts.Ask(of, sl.Key, &sl.start, sl.Run.Journal().Bytes()):
		sl.mem.port.Activate(l, ClassStart)
	default:
		sl.Step(now, actor.Mail{Event: run.Refused{Lease: l, Later: true}})
	}
}

// Created commits a start without its first activation if that takes longer than StartLinger.
func (sl *slot) Created() {
	sl.linger = sl.mem.port.After(sl.mem.limits.StartLinger, func(now int64) {
		if !sl.gone && sl.Hurry() {
			sl.mem.settle(now, sl)
		}
	})
}

// Misses records that the run waits for the handler name.
func (sl *slot) Misses(name string) { sl.p.miss(name, sl.Key) }

// Prepared queues the run's commit for the next batch.
func (sl *slot) Prepared() { sl.mem.commits.add(sl) }

// Replaced withdraws the request for a place that the replaced run may have made.
func (sl *slot) Replaced() { sl.mem.starts.Leave(&sl.start) }

// Happened reports faults, long journals and unrecorded outcomes of a step as notes.
func (sl *slot) Happened(fx *run.Effects) {
	if fx.Fault != nil {
		sl.note(note.Note{Kind: note.Fault, Cause: fx.Fault})
	}
	if fx.LongJournal > 0 {
		sl.note(note.Note{Kind: note.Long, Count: fx.LongJournal})
	}
	if fx.Unrecorded != nil {
		sl.note(note.Note{Kind: note.Unrecorded, Cause: fx.Unrecorded})
	}
}

// Stuck reports that the run is stuck.
func (sl *slot) Stuck(st *store.RunState) {
	sl.mem.port.Note(note.Note{Kind: note.Stuck, Run: sl.Key, Partition: sl.p.ID, Workflow: st.Workflow, State: st})
}

func (sl *slot) note(n note.Note) {
	n.Run, n.Partition, n.Workflow = sl.Key, sl.p.ID, sl.Run.State().Workflow
	sl.mem.port.Note(n)
}
