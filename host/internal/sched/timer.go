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

// loadPortion bounds the wakes of one read of the index.
const loadPortion = 4096

// never is the far wake of a partition that has none.
const never = math.MaxInt64

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

// fireDue puts the runs whose wakes are due into the queue, and gives the instant at which to come again.
func (s *Scheduler) fireDue(ctx context.Context) (next int64, ok bool, err error) {
	s.begin()
	defer s.done()
	now := s.nowMs()
	s.mu.Lock()
	s.wheel.Advance(now, func(_ int64, run store.RunKey) { s.enqueueLocked(run, true) })
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
	for _, far := range s.far {
		if far != never && (!ok || far-window < next) {
			next, ok = far-window, true
		}
	}
	return next, ok
}

// nextWakeLocked gives the instant of the first wake of all runs, false if there is none.
func (s *Scheduler) nextWakeLocked() (int64, bool) {
	next, ok := s.wheel.Next()
	for _, far := range s.far {
		if far != never && (!ok || far < next) {
			next, ok = far, true
		}
	}
	return next, ok
}

func (s *Scheduler) kickTimer() { notify(s.kick) }

// load brings the wakes of the next window into the wheel, for partitions whose first far wake comes near.
func (s *Scheduler) load(ctx context.Context, now int64) error {
	for p := range s.parts {
		s.mu.Lock()
		far, loaded := s.far[p], s.loaded[p]
		s.mu.Unlock()
		if far-window > now {
			continue
		}
		until := now + window
		after := store.WakeKey{}
		if loaded >= 0 {
			after = store.WakeKey{UnixMs: loaded, Run: store.RunKey{ID: "\xff"}} // after every id of that instant
		}
		if err := s.loadPartition(ctx, p, after, now, until); err != nil {
			return err
		}
	}
	return nil
}

// loadPartition reads the wakes after a key. A commit that is going on meanwhile sees the new bound and puts its
// wake into the wheel itself: then the run is in it twice, and the second time finds nothing due.
func (s *Scheduler) loadPartition(ctx context.Context, p int, after store.WakeKey, now, until int64) error {
	s.mu.Lock()
	s.loaded[p], s.far[p] = max(s.loaded[p], until), never
	s.mu.Unlock()
	for {
		wakes, err := s.parts[p].Due(ctx, after, math.MaxInt64-1, loadPortion)
		if err != nil {
			return err
		}
		s.mu.Lock()
		for _, w := range wakes {
			if w.Key.UnixMs > until {
				s.far[p] = min(s.far[p], w.Key.UnixMs)
				s.mu.Unlock()
				return nil
			}
			if w.Key.UnixMs <= now {
				s.enqueueLocked(w.Key.Run, true)
			} else if !s.wheel.Add(w.Key.UnixMs, w.Key.Run) { // cannot be: the window ends before the horizon
				s.loaded[p], s.far[p] = w.Key.UnixMs-1, w.Key.UnixMs
				s.mu.Unlock()
				return nil
			}
			after = w.Key
		}
		s.mu.Unlock()
		if len(wakes) < loadPortion {
			return nil
		}
	}
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
	p := run.Partition()
	s.mu.Lock()
	defer s.mu.Unlock()
	if unixMs <= s.loaded[p] && s.wheel.Add(unixMs, run) {
		s.kickTimer()
		return
	}
	if unixMs < s.far[p] {
		s.far[p] = unixMs
		s.kickTimer()
	}
}
