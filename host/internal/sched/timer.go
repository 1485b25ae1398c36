package sched

import (
	"context"
	"math"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/wheel"
	"github.com/wfhost/wfhost/store"
)

// window is how far ahead wakes are loaded into the wheel: half a turn, so that a load always finds room.
const window = wheel.Slots / 2

// bounds is what bounds the work of the timer loop, and what it keeps in memory.
type bounds struct {
	// portion bounds the wakes of one read of the index, and reads the reads between two looks at the wheel: however many
	// wakes there are to be loaded, timers are not late because of it.
	portion, reads int
	// timers is how many timers the wheel holds before less is loaded ahead: 64 bytes each. From there on it is what comes
	// due within tightMs, and from twice as many on, what is due.
	timers  int
	tightMs int64
	// due is how many runs that are due the workers have before them when no more are loaded: the others stay in the index.
	due int
}

var defaultBounds = bounds{portion: 1024, reads: 8, timers: 1 << 18, tightMs: 1000, due: 8192}

// never is the far wake of a partition that has none.
const never = math.MaxInt64

// front is how far the wakes of a partition are loaded.
type front struct {
	pos store.WakeKey // wakes up to this key are in the wheel, those after it in the index alone
	far int64         // the instant of the first wake after pos, or an earlier one; never if there is none
}

// margin is how long before its first far wake a partition is loaded, at the latest half a window before: a load brings
// at least as much as half a window, however closely wakes follow one another. It differs between partitions, so that
// they are not all loaded at once for ever.
func margin(p int) int64 { return window/4 + int64(p)*(window/4)/store.Partitions }

// aheadLocked gives how far ahead wakes may be loaded.
func (s *Scheduler) aheadLocked() int64 {
	switch n := s.wheel.Len(); {
	case n < s.bounds.timers:
		return window
	case n < 2*s.bounds.timers:
		return s.bounds.tightMs
	}
	return 0
}

// timerLoop sleeps until the next deadline, and fires.
func (s *Scheduler) timerLoop(ctx context.Context) error {
	for {
		next, ok, err := s.fireDue(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		var fire <-chan time.Time
		stop := func() bool { return true }
		if ok {
			t := s.timerAt(time.UnixMilli(next))
			fire, stop = t.C(), t.Stop
		}
		select {
		case <-fire:
		case <-s.kick:
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
		stop()
		if ctx.Err() != nil || s.ctx.Err() != nil {
			return nil
		}
	}
}

// timerAt gives a timer that fires at an instant. A timer takes a duration: if the clock is set between reading it
// and starting the timer, the timer would be late, so it is made again.
func (s *Scheduler) timerAt(at time.Time) clock.Timer {
	for {
		now := s.cfg.Clock.Now()
		t := s.cfg.Clock.NewTimer(at.Sub(now))
		if d := s.cfg.Clock.Now().Sub(now); d < time.Millisecond && d > -time.Millisecond {
			return t
		}
		t.Stop()
	}
}

// fireDue gives the runs whose wakes are due to the workers, and gives the instant at which to come again.
func (s *Scheduler) fireDue(ctx context.Context) (next int64, ok bool, err error) {
	s.begin()
	defer s.done()
	now := s.nowMs()
	s.mu.Lock()
	if s.stalled {
		s.stalled = false
		s.busy--
	}
	s.busy += s.wheel.Advance(now)
	s.wakeWorkersLocked()
	s.mu.Unlock()
	if err := s.load(ctx, now); err != nil { // after the wheel has moved, so that it takes the next window
		return 0, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next, ok = s.nextLocked()
	return next, ok, s.failed
}

// nextLocked gives the instant at which the timer loop has something to do.
func (s *Scheduler) nextLocked() (int64, bool) {
	next, ok := s.wheel.Next()
	if s.stalled { // whoever takes the runs that are due will say when
		return next, ok
	}
	ahead := s.aheadLocked()
	for p := range s.fronts {
		far := s.fronts[p].far
		if far == never {
			continue
		}
		if at := far - min(ahead, margin(p)); !ok || at < next {
			next, ok = at, true
		}
	}
	return next, ok
}

// nextWakeLocked gives the instant of the first wake of all runs, false if there is none.
func (s *Scheduler) nextWakeLocked() (int64, bool) {
	next, ok := s.wheel.Next()
	for p := range s.fronts {
		if far := s.fronts[p].far; far != never && (!ok || far < next) {
			next, ok = far, true
		}
	}
	return next, ok
}

func (s *Scheduler) kickTimer() { notify(s.kick) }

// takeDueLocked takes a run whose wake is due, for a worker.
func (s *Scheduler) takeDueLocked() (store.RunKey, bool) {
	run, ok := s.wheel.Take()
	if s.stalled && s.wheel.Due() < s.bounds.due/2 {
		s.kickTimer()
	}
	return run, ok
}

// load brings wakes into the wheel, for partitions whose first far wake comes near, a portion of each in turn.
func (s *Scheduler) load(ctx context.Context, now int64) error {
	for range s.bounds.reads {
		s.mu.Lock()
		p, until, ok := s.nearLocked(now)
		s.mu.Unlock()
		if !ok {
			return nil
		}
		if err := s.loadPartition(ctx, p, now, until); err != nil {
			return err
		}
	}
	return nil
}

// nearLocked gives the next partition to be loaded, and up to which instant. While the workers have enough to do there
// is none.
func (s *Scheduler) nearLocked(now int64) (p int, until int64, ok bool) {
	ahead := s.aheadLocked()
	for range s.fronts {
		p = s.loadNext % len(s.fronts)
		s.loadNext = p + 1
		if far := s.fronts[p].far; far == never || far-min(ahead, margin(p)) > now {
			continue
		}
		if s.wheel.Due() >= s.bounds.due {
			if !s.stalled {
				s.stalled = true
				s.busy++
			}
			return p, 0, false
		}
		return p, now + ahead, true
	}
	return p, 0, false
}

// loadPartition reads a portion of the wakes up to an instant. A commit that is going on meanwhile sees the new front
// and puts its wake into the wheel itself: then the run may be in it twice, and the second time finds nothing due.
func (s *Scheduler) loadPartition(ctx context.Context, p int, now, until int64) error {
	f := &s.fronts[p]
	s.mu.Lock()
	after := f.pos
	if end := (store.WakeKey{UnixMs: until, Key: store.RunKey{ID: "\xff"}}); end.Compare(f.pos) > 0 {
		f.pos = end // after every id of that instant
	}
	f.far = never
	s.mu.Unlock()
	wakes, err := s.parts[p].Due(ctx, after, until, s.bounds.portion+1)
	if err != nil {
		return err
	}
	s.mu.Lock()
	for i, w := range wakes {
		if i == s.bounds.portion || !s.addLocked(w.Key.Key, w.Key.UnixMs, now) {
			f.pos, f.far = after, min(f.far, w.Key.UnixMs)
			s.mu.Unlock()
			return nil
		}
		after = w.Key
	}
	after = f.pos
	s.mu.Unlock()
	wakes, err = s.parts[p].Due(ctx, after, math.MaxInt64-1, 1)
	if err != nil || len(wakes) == 0 {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.far = min(f.far, wakes[0].Key.UnixMs)
	return nil
}

// addLocked puts a wake into the wheel; false if it has no room.
func (s *Scheduler) addLocked(run store.RunKey, unixMs, now int64) bool {
	if unixMs > now {
		return s.wheel.Add(unixMs, run)
	}
	s.wheel.AddDue(run)
	s.busy++
	s.wakeWorkersLocked()
	return true
}

// armNear puts a wake into the wheel, at its end if it lies beyond: the run is then looked at, and armed again. It
// gives the instant.
func (s *Scheduler) armNear(run store.RunKey, unixMs int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := min(unixMs, s.wheel.Horizon())
	s.wheel.Add(at, run)
	s.kickTimer()
	return at
}

// arm puts a durable wake into the wheel, or leaves it to a later load.
func (s *Scheduler) arm(run store.RunKey, unixMs int64) {
	f := &s.fronts[run.Partition()]
	s.mu.Lock()
	defer s.mu.Unlock()
	key := store.WakeKey{UnixMs: max(unixMs, 0), Key: run}
	if key.Compare(f.pos) <= 0 {
		if s.addLocked(run, unixMs, s.nowMs()) {
			s.kickTimer()
			return
		}
		// Beyond the end of the wheel: what was loaded ends before it.
		f.pos = store.WakeKey{UnixMs: key.UnixMs - 1, Key: store.RunKey{ID: "\xff"}}
	}
	if unixMs < f.far {
		f.far = unixMs
		s.kickTimer()
	}
}
