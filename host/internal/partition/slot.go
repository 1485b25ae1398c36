package partition

import (
	"container/list"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Reply tells whoever caused an event what came of it. It is called by the shard's goroutine, and does not block.
type Reply func(run.Answer, error)

// slot is the place of a run in memory.
type slot struct {
	p   *Partition
	key store.RunKey
	run *run.Run // nil until it is loaded

	mail     []mail // waits until the run is loaded, or until its guest yields
	yielding bool   // its guest was asked to yield

	// What a commit has to make durable before it is done: after belongs to the next commit that is prepared.
	after    []after
	urgent   bool             // somebody waits for the next commit
	prepared *store.RunCommit // was prepared while its guest yielded, and goes with the next batch
	prepDone []after
	flying   bool // a commit of it is on its way
	flyDone  []after

	cmds []command // that the run has taken, and whose effect is not durable yet

	steppedMs int64 // the instant of its newest step
	touched   bool  // something has happened to it since its commit was prepared
	queued    bool  // in Shard.ready
	woken     bool  // it was woken, and has not come to rest: it counts in Shard.busy
	asked     bool  // it has not begun, and waits for its first place: it counts in Shard.asked
	invited   bool  // it waited as a key, and is read: it counts in Shard.invited

	place *list.Element // among those that are kept
	bytes int64
}

// mail is an event that waits, with its reply, which may be nil.
type mail struct {
	ev    run.Event
	reply Reply
	early bool   // the reply does not wait until it is durable
	free  func() // called when what came of it is durable, or will not be; nil = nothing
}

// refuse answers an event that does not happen.
func (m mail) refuse(err error) {
	if m.free != nil {
		m.free()
	}
	if m.reply != nil {
		m.reply(run.Answer{}, err)
	}
}

// after is what is done when a commit is durable.
type after struct {
	reply  Reply
	answer run.Answer
	err    error // in place of the answer
	start  []*run.Attempt
	again  *mail
	free   func()
	stuck  bool // the run was left to a person
}

// What a run in memory and an entry of its journal take beside payloads and names, about: the sizes of their structures.
const (
	slotBytes  = 2048
	entryBytes = 320
)

// working reports whether something goes on with the run that comes to an end by itself: it is read, a guest computes or
// is to, or it is committed. A guest that waits for an attempt does not count.
func (sl *slot) working() bool {
	return sl.run == nil || len(sl.mail) > 0 || sl.queued || sl.flying || sl.prepared != nil || len(sl.after) > 0 ||
		sl.run.Computes()
}

// atRest reports whether the slot may be dropped without a loss.
func (sl *slot) atRest() bool {
	return sl.run != nil && !sl.run.Lent() && len(sl.mail) == 0 && len(sl.after) == 0 && sl.prepared == nil &&
		!sl.flying && !sl.queued && sl.run.AtRest()
}

// running reports whether a guest of the run is there, or an attempt of a step goes on.
func (sl *slot) running() bool { return sl.run != nil && (sl.run.Lent() || sl.run.Running()) }

// size returns what the slot of a run that is there takes, about.
func (sl *slot) size() int64 {
	j := sl.run.Journal()
	return slotBytes + j.Bytes() + int64(j.Len())*entryBytes
}

// settle looks at a slot after something has happened to it: arms its timer, has it committed, and lets go of it when it
// is at rest.
func (s *Shard) settle(now int64, sl *slot) {
	if sl.p.slots[sl.key] != sl {
		return
	}
	s.unkeep(sl)
	if sl.run != nil {
		if sl.run.Lent() {
			s.askToYield(sl)
		} else {
			s.arm(sl)
			if sl.urgent || sl.prepared != nil || sl.touched && sl.run.Wants() {
				s.enqueue(sl)
			}
		}
	}
	if sl.woken && !sl.working() {
		s.rested(sl)
	}
	if sl.atRest() {
		s.rest(now, sl)
	}
}

// rested no longer counts a run that was woken.
func (s *Shard) rested(sl *slot) {
	if sl.woken {
		sl.woken = false
		s.busy--
	}
}

// askToYield asks the guest of a run to yield if somebody waits for the run.
func (s *Shard) askToYield(sl *slot) {
	if !sl.yielding && (len(sl.mail) > 0 || sl.urgent && sl.prepared == nil) {
		sl.yielding = true
		s.port.Yield(sl.run.Lease())
	}
}

// enqueue has a slot looked at when the next batch is made.
func (s *Shard) enqueue(sl *slot) {
	if !sl.queued {
		sl.queued = true
		s.ready = append(s.ready, sl)
	}
}

// rest keeps a run that may be needed soon, and drops others. Those that were used longest ago give way.
func (s *Shard) rest(now int64, sl *slot) {
	if !s.soon(now, sl) {
		s.drop(now, sl)
		return
	}
	sl.bytes = sl.size()
	sl.place = s.kept.PushFront(sl)
	s.keptBytes += sl.bytes
	for s.keptBytes > s.limits.KeptBytes {
		last := s.kept.Back().Value.(*slot) //nolint:forcetypeassert // it holds nothing else
		s.unkeep(last)
		s.drop(now, last)
	}
}

// soon reports whether a run at rest may be needed soon: it wakes within the window, or waits for something else than
// time.
func (s *Shard) soon(now int64, sl *slot) bool {
	if !sl.run.Exists() {
		return false
	}
	st := sl.run.State()
	if st.Status.Terminal() || st.Status.Attention() {
		return false
	}
	return st.WakeUnixMs == store.NoWake || st.WakeUnixMs-now <= window
}

func (s *Shard) unkeep(sl *slot) {
	if sl.place != nil {
		s.kept.Remove(sl.place)
		s.keptBytes -= sl.bytes
		sl.place = nil
	}
}

// drop forgets a run. Its wake, which is durable, stays in memory if it is near, and else in the index alone.
func (s *Shard) drop(now int64, sl *slot) {
	s.rested(sl)
	s.leaveQueue(sl)
	delete(sl.p.slots, sl.key)
	if sl.run == nil || !sl.run.Exists() {
		return
	}
	st := sl.run.State()
	sl.p.leave(timerKey{store.WakeRun, sl.key}, st.WakeUnixMs)
}
