package sched

import (
	"slices"
	"time"

	"github.com/wfhost/wfhost/store"
)

// job is what a worker does: serve a run, or empty the inbox of a partition.
type job struct {
	run   store.RunKey
	inbox bool
	p     store.PartitionID
}

// wakeWorkersLocked starts workers for what is queued: one for each job, since those that are there may be busy for
// long. They end when the queue is empty. Before Run there are none.
func (s *Scheduler) wakeWorkersLocked() {
	for n := s.queuedLocked() - s.starting; n > 0 && s.running && s.workers < maxWorkers; n-- {
		s.workers++
		s.starting++
		if last := len(s.spare) - 1; last >= 0 {
			s.spare[last] <- struct{}{}
			s.spare = s.spare[:last]
			continue
		}
		s.wg.Add(1)
		go s.work()
	}
}

// queuedLocked gives how many jobs wait for a worker.
func (s *Scheduler) queuedLocked() int { return len(s.high) + len(s.low) + s.wheel.Due() }

// spareFor is how long a worker without work stays: the stack that it has grown is worth keeping between two wakes.
const spareFor = 100 * time.Millisecond

// stayLocked waits as a spare worker until it is called; false ends it. The lock is given up meanwhile.
func (s *Scheduler) stayLocked(call chan struct{}) bool {
	if !s.running || s.closed {
		return false
	}
	s.spare = append(s.spare, call)
	s.mu.Unlock()
	t := budgetClock.NewTimer(spareFor)
	defer t.Stop()
	select {
	case <-call:
		s.mu.Lock()
		return true
	case <-t.C():
	case <-s.ctx.Done():
	}
	s.mu.Lock()
	if i := slices.Index(s.spare, call); i >= 0 {
		s.spare = slices.Delete(s.spare, i, i+1)
		return false
	}
	<-call // it was called at the same time
	return true
}

func (s *Scheduler) work() {
	defer s.wg.Done()
	call := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		s.starting--
		for s.running && !s.closed {
			j, ok := s.dequeueLocked()
			if !ok {
				break
			}
			s.mu.Unlock()
			if j.inbox {
				s.emptyInbox(j.p)
			} else {
				s.serve(j.run)
			}
			s.mu.Lock()
			s.busy--
			s.notifyIdleLocked()
		}
		s.workers--
		s.notifyIdleLocked()
		if !s.stayLocked(call) {
			return
		}
	}
}

// dequeueLocked takes the next job: runs whose wakes are due stay in the wheel, where they take the least memory, until a
// worker has time for one. New runs come last, so that however many are started, none that was promised to wake waits
// for them.
func (s *Scheduler) dequeueLocked() (j job, ok bool) {
	if s.dueNext || len(s.high) == 0 {
		if j.run, ok = s.takeDueLocked(); ok {
			s.dueNext = false
			return j, true
		}
	}
	switch {
	case len(s.high) > 0:
		j, s.high = s.high[0], s.high[1:]
		s.dueNext = true
	case len(s.low) > 0:
		j, s.low = s.low[0], s.low[1:]
	default:
		return j, false
	}
	return j, true
}

// stepAside is called by a worker that waits for long: another one may take its place. stepBack ends it.
func (s *Scheduler) stepAside() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers--
	s.aside++
	s.wakeWorkersLocked()
}

func (s *Scheduler) stepBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers++
	s.aside--
}
