package shard

import (
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// farMs is the largest step back of the clock that does not start a search by Port.Ahead. Guests may lag as much.
const farMs = 1000

// waker fires the timers that are due and loads wakes from the index shortly before they are due.
type waker struct {
	port Port
	mem  *memory
	cmds *commands
	turn int   // index of the partition that fires next
	last int64 // the instant of the last call of checkClock
}

// checkClock checks whether the clock was set back since the last call. If so, retries become due, and runs that wait after a
// fault of the host get run.Due, so they do not wait for the clock to catch up. If the clock was set back by more than farMs, all
// runs in memory get it, and Port.Ahead seeks other runs that began to wait while the clock showed a later time.
func (w *waker) checkClock(now int64) {
	back, far := now < w.last, now < w.last-farMs
	w.last = now
	w.mem.woken.Full(now) // expires runs older than freshMs, which next would return until the next call of fire
	for _, p := range w.mem.order {
		if far || !p.clockChecked { // a new partition: the clock of its previous owner may have been ahead
			p.clockChecked = true
			w.port.Ahead(p, now, far)
		}
	}
	for i := 0; back && i < len(w.mem.order); i++ {
		p := w.mem.order[i]
		p.wakes.SetBack(now)
		for _, key := range p.keys() {
			if rs := p.residents[key]; rs != nil && rs.Run != nil && (far || rs.Run.Faulty()) {
				w.mem.deliverTo(now, rs, Envelope{Event: run.Due{}})
			}
		}
	}
}

// fire fires due timers until the limit of woken runs is reached. Partitions take turns.
func (w *waker) fire(now int64) {
	for idle := 0; idle < len(w.mem.order) && !w.mem.woken.Full(now); {
		p := w.mem.order[w.turn%len(w.mem.order)]
		w.turn++
		k, due, ok := p.wakes.Pop(now)
		if !ok {
			idle++
			continue
		}
		idle = 0
		switch k.Kind {
		case kindInbox:
			w.cmds.kicked(p)
		case KindCommand:
			if p.inbox.Idle(k.Run) {
				w.cmds.take(now, p, k.Run)
			}
		case store.WakeSchedule, store.WakeLimit:
			w.port.Ring(k)
		case store.WakeRun:
			if p.unreadable[k.Run] == nil {
				w.wake(now, p, k.Run, due)
			}
		}
	}
}

// wake wakes a run whose timer fired at due.
func (w *waker) wake(now int64, p *Partition, key store.RunKey, due int64) {
	if rs := p.residents[key]; rs != nil {
		rs.armed, rs.paced, rs.let = false, false, true
	}
	w.port.Report(Report{Kind: ReportWake, Run: key, Partition: p.ID, LateMs: now - due})
	w.mem.deliver(now, p, key, Envelope{Event: run.Due{}})
	if rs := p.residents[key]; rs != nil && rs.Run == nil { // being loaded
		rs.let = true
	}
	if rs := p.residents[key]; rs != nil && rs.working() {
		w.mem.woken.Add(now, &rs.woken)
	}
}

// invite loads new runs that wait as keys, as many as mem.starts has room for, so that they ask for a place.
func (w *waker) invite(now int64) {
	for of, key, ok := w.mem.starts.Next(); ok; of, key, ok = w.mem.starts.Next() {
		p := w.mem.parts[key.Partition()]
		if p == nil {
			continue
		}
		w.mem.deliver(now, p, key, Envelope{Event: run.Due{}})
		if rs := p.residents[key]; rs != nil && rs.Run == nil {
			w.mem.starts.Invite(of, &rs.start)
		}
	}
}

// load starts reads of wakes that are near.
func (w *waker) load(now int64) {
	ahead := w.mem.ahead()
	for _, p := range w.mem.order {
		if p.wakes.Reads(now, ahead) && !w.mem.woken.Full(now) && !holds(p, ahead) {
			after, until := p.wakes.Read(now, ahead)
			w.port.Due(p, after, until, w.mem.limits.Portion)
		}
	}
}

// holds reports whether a partition reads no portion: memory has too many timers to read ahead, and timers of the partition
// fire before the portion. So a million runs that are due when a host starts wait in the index.
func holds(p *Partition, ahead int64) bool { return ahead == 0 && p.wakes.Behind() }

// next returns the instant of the next Tick, Never if no Tick is needed before the next event.
func (w *waker) next() int64 {
	if next, full := w.mem.woken.Next(); full {
		return next // or earlier, when a woken run comes to rest
	}
	next := int64(Never)
	ahead := w.mem.ahead()
	for _, p := range w.mem.order {
		if at, has := p.wakes.Next(); has && w.mem.active {
			next = min(next, at)
		}
		if at, reads := p.wakes.NextRead(ahead); reads && !holds(p, ahead) {
			next = min(next, at)
		}
	}
	return next
}

// ahead sets a timer for now for each found run that is not in memory.
func (w *waker) ahead(now int64, p *Partition, keys []store.RunKey, err error) {
	if err != nil && !p.lost {
		w.port.Report(Report{Kind: ReportIndex, Partition: p.ID, Cause: err})
	}
	for _, key := range keys {
		if !p.lost && !p.inMemory(key) {
			p.wakes.Put(wakeKey(key), now)
		}
	}
}

// first returns the instant of the first wake of all runs, Never if there is none.
func (w *waker) first() int64 {
	first := int64(Never)
	for _, p := range w.mem.order {
		first = min(first, p.wakes.First())
	}
	return first
}

// loaded handles the result of a read of the wake index.
func (w *waker) loaded(now int64, p *Partition, wakes []store.Wake, more bool, first int64, err error) {
	switch {
	case p.lost || w.mem.fenced(p, err):
	case err != nil:
		w.port.Report(Report{Kind: ReportIndex, Partition: p.ID, Cause: err})
		p.wakes.Failed(now)
	default:
		p.wakes.Loaded(wakes, more, first, p.inMemory)
	}
}
