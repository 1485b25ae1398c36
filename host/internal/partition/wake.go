package partition

import (
	"math"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// window is how far ahead wakes are loaded: a little more than half a minute, so that loads come in portions worth
// reading, and memory does not grow with far sleepers.
const window = 32_768

// tight is how far ahead wakes are loaded when there are many timers in memory.
const tight = 1000

const (
	// never is the far wake of a partition that has none.
	never = math.MaxInt64
	// beginning is the far wake of a partition whose index was not read yet.
	beginning = -1
)

// front is how far the wakes of a partition are loaded.
type front struct {
	pos     store.WakeKey // wakes up to this key have timers, those after it are in the index alone
	far     int64         // the instant of the first wake after pos, or an earlier one; never if there is none
	reading bool          // a portion is being read
	notMs   int64         // not before this instant: the index could not be read
}

// margin is how long before its first far wake a partition is loaded, at the latest half a window before: a load brings
// at least as much as half a window, however closely wakes follow one another. It differs between partitions, so that
// they do not all reload at the same time.
func margin(p store.PartitionID) int64 {
	return window/4 + int64(p)*(window/4)/store.Partitions
}

// ahead returns how far ahead wakes may be loaded.
func (s *Shard) ahead() int64 {
	n := 0
	for _, p := range s.order {
		n += p.timers.Len()
	}
	switch {
	case n < s.limits.Timers:
		return window
	case n < 2*s.limits.Timers:
		return tight
	}
	return 0
}

// arm sets the timer of a run in memory. A run has one timer, however often it is armed.
func (s *Shard) arm(now int64, sl *slot) {
	k := timerKey{store.WakeRun, sl.key}
	if !s.active { // nothing is fired, so that what is due by now is due when the shard is active again
		now = math.MinInt64
	}
	at, ok := sl.run.NextWake(now)
	if !ok {
		sl.p.timers.Remove(k)
		return
	}
	sl.p.timers.Put(k, at)
}

// leave decides what becomes of the timer of a run that is dropped from memory, whose durable wake is given: it stays if
// that was loaded, and else is left to the index.
func (p *Partition) leave(k timerKey, wakeUnixMs int64) {
	if wakeUnixMs == store.NoWake {
		p.timers.Remove(k)
		return
	}
	key := store.WakeKey{UnixMs: max(wakeUnixMs, 0), Kind: k.kind, Key: k.key}
	if key.Compare(p.front.pos) <= 0 {
		if _, ok := p.timers.Due(k); !ok {
			return // a start that waits as a key, or a run that waits for a handler
		}
		p.timers.Put(k, wakeUnixMs)
		return
	}
	p.timers.Remove(k)
	p.front.far = min(p.front.far, key.UnixMs)
}

// Tick wakes the runs that are due, and has wakes loaded whose time comes near. The caller calls it when Next says so, and
// whenever something has happened.
func (s *Shard) Tick(now int64) {
	if s.active {
		s.invite(now)
		s.fire(now)
	}
	ahead := s.ahead()
	for _, p := range s.order {
		f := &p.front
		if f.reading || f.far == never || f.far-min(ahead, margin(p.ID)) > now || f.notMs > now || s.busy >= s.limits.Busy {
			continue
		}
		until := now + ahead
		after := f.pos
		f.reading = true
		if end := lastKey(until); end.Compare(f.pos) > 0 {
			f.pos = end
		}
		f.far = never
		s.port.Due(p, after, until, s.limits.Portion)
	}
}

// lastKey returns a key after every key of an instant: runs of the default namespace stand last in the index, and their
// ids are ASCII.
func lastKey(unixMs int64) store.WakeKey {
	return store.WakeKey{UnixMs: unixMs, Key: store.RunKey{ID: "\xff"}}
}

// fire wakes runs, one of each partition in turn, as long as there is room.
func (s *Shard) fire(now int64) {
	for idle := 0; idle < len(s.order) && s.busy < s.limits.Busy; {
		p := s.order[s.next%len(s.order)]
		s.next++
		k, due, ok := p.timers.Pop(now)
		if !ok {
			idle++
			continue
		}
		idle = 0
		switch {
		case k.kind == kindInbox:
			s.Kicked(p.ID)
			continue
		case k.kind == kindCommand:
			if len(p.inbox.queues[k.key]) > 0 && p.inbox.busy(k.key) < 0 {
				s.takeFirst(now, p, k.key)
			}
			continue
		case k.kind != store.WakeRun || p.unreadable[k.key] != nil:
			continue
		}
		s.port.Note(Note{Kind: NoteWake, Run: k.key, Partition: p.ID, LateMs: now - due})
		s.deliver(now, p, k.key, mail{ev: run.Due{}})
		if sl := p.slots[k.key]; sl != nil && !sl.woken && sl.working() {
			sl.woken = true
			s.busy++
		}
	}
}

// DueRead takes wakes that were read from the index, after a key and up to an instant: at most limit of them, and whether
// there are more. first is the instant of the first wake behind them, never (the largest number) if there is none.
func (s *Shard) DueRead(now int64, p *Partition, wakes []store.Wake, more bool, first int64, err error) {
	if s.parts[p.ID] != p {
		return
	}
	f := &p.front
	f.reading = false
	if s.fenced(p, err) {
		return
	}
	if err != nil {
		s.port.Note(Note{Kind: NoteIndex, Partition: p.ID, Cause: err})
		f.pos, f.far, f.notMs = store.WakeKey{}, beginning, now+readAgain.Milliseconds() // from the beginning
		return
	}
	for _, w := range wakes {
		k := timerKey{w.Key.Kind, w.Key.Key}
		if _, has := p.timers.Due(k); has || p.slots[w.Key.Key] != nil && k.kind == store.WakeRun {
			continue // what is in memory is newer
		}
		p.timers.Put(k, w.DueUnixMs)
	}
	if more {
		last := wakes[len(wakes)-1].Key
		f.pos, first = last, min(first, last.UnixMs)
	}
	f.far = min(f.far, first)
}

// Next returns the instant at which Tick has something to do, false if only an event can bring that.
func (s *Shard) Next(now int64) (unixMs int64, ok bool) {
	consider := func(at int64) {
		if !ok || at < unixMs {
			unixMs, ok = at, true
		}
	}
	if s.busy >= s.limits.Busy {
		return 0, false // whoever comes to rest brings the next look
	}
	ahead := s.ahead()
	for _, p := range s.order {
		if at, has := p.timers.Next(); has && s.active {
			consider(at)
		}
		if f := &p.front; !f.reading && f.far != never {
			consider(max(f.far-min(ahead, margin(p.ID)), f.notMs))
		}
	}
	return unixMs, ok
}

// NextWake returns the instant of the first wake of all runs, false if there is none.
func (s *Shard) NextWake() (unixMs int64, ok bool) {
	for _, p := range s.order {
		if at, has := p.timers.Next(); has && (!ok || at < unixMs) {
			unixMs, ok = at, true
		}
		if far := p.front.far; far != never && far != beginning && (!ok || far < unixMs) {
			unixMs, ok = far, true
		}
	}
	return unixMs, ok
}
