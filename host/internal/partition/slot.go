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

// Errors that callers get, to be tested with errors.Is.
var (
	// ErrNotOwned: this host does not own the partition of the run.
	ErrNotOwned = errors.New("the run's partition is not owned by this host")
	// ErrLost: the partition was lost before the event was durable. It may have happened, or not.
	ErrLost = errors.New("the run's partition was lost")
)

// Reply tells whoever caused an event what came of it. It is called by the shard's goroutine, and does not block.
type Reply = actor.Reply

// slot is the place of a run in memory. It is the home of its actor, and knows what others have to know of the run.
type slot struct {
	actor.Actor
	p   *Partition
	mem *memory

	cmds []inbox.Command // that the run has taken, and whose effect is not durable yet

	queued bool        // in commits.ready
	busy   busy.Mark   // in memory.busy: it was woken, and has not come to rest
	start  queued.Mark // in memory.starts: it has not begun, and waits for its first place

	place *lru.Place[*slot] // in memory.kept, nil if it is not there

	linger func() // ends the wait of a start for its first activation; nil if it does not wait

	armed   bool  // it is known which timer it has
	held    bool  // it waits until its namespace may go on, and that is its timer
	let     bool  // its namespace may, and it has waited for that
	dueMs   int64 // since when it has waited for that, and for a place then; 0: it does not
	wakesMs int64 // the instant of that timer, wake.Never if it has none
	gone    bool  // it is no longer its partition's
}

// newSlot gives a run its slot in a partition.
func newSlot(m *memory, p *Partition, key store.RunKey) *slot {
	sl := &slot{p: p, mem: m}
	sl.Actor = actor.New(m.port, sl, key)
	p.slots[key] = sl
	return sl
}

// forget takes a slot out of its partition.
func (sl *slot) forget() {
	delete(sl.p.slots, sl.Key)
	sl.gone = true
	sl.mem.port.Forgot(sl.Key)
}

// group returns whose run it is, among those that take turns.
func (sl *slot) group() queued.Group {
	g := queued.Group{Namespace: sl.Key.Namespace}
	if sl.Run != nil {
		g.Workflow = sl.Run.State().Workflow
	}
	return g
}

// working reports whether something goes on with the run that comes to an end by itself.
func (sl *slot) working() bool { return sl.queued || sl.Working() }

// atRest reports whether the slot may be dropped without a loss.
func (sl *slot) atRest() bool { return !sl.queued && sl.AtRest() }

// soon reports whether a run at rest may be needed soon: it wakes within the window, or waits for something else than
// time.
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

// wakeKey is whose timer that of a run is.
func wakeKey(key store.RunKey) wake.Key { return wake.Key{Kind: store.WakeRun, Run: key} }

// arm sets the timer of a run in memory. A run has one timer, however often it is armed.
func (sl *slot) arm(active bool) {
	if sl.held {
		return
	}
	since := sl.SteppedMs // what was due by then has been dealt with, and nothing else
	if !active {          // nothing is fired, so that what is due by now is due when the shard is active again
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

// Activate asks for a place for a guest. New runs that would wait for long wait as keys.
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
	if sl.held { // it need not wait after all, and has the timer of any run again
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

// Created has a start committed whose first activation takes long.
func (sl *slot) Created() {
	sl.linger = sl.mem.port.After(sl.mem.limits.StartLinger, func(now int64) {
		if !sl.gone && sl.Hurry() {
			sl.mem.settle(now, sl)
		}
	})
}

// Misses remembers that the run waits for a handler.
func (sl *slot) Misses(name string) { sl.p.miss(name, sl.Key) }

// Prepared has the commit of the run go with the next batch.
func (sl *slot) Prepared() { sl.mem.commits.add(sl) }

// Replaced frees the place for which the run before may have asked.
func (sl *slot) Replaced() { sl.mem.starts.Leave(&sl.start) }

// Happened reports what people may want to know of a step.
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

// Stuck reports that the run was left to a person.
func (sl *slot) Stuck(st *store.RunState) {
	sl.mem.port.Note(note.Note{Kind: note.Stuck, Run: sl.Key, Partition: sl.p.ID, Workflow: st.Workflow, State: st})
}

func (sl *slot) note(n note.Note) {
	n.Run, n.Partition, n.Workflow = sl.Key, sl.p.ID, sl.Run.State().Workflow
	sl.mem.port.Note(n)
}
