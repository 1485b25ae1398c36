package handler

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// TakeRequest is a worker's request for attempts.
type TakeRequest struct {
	Worker string        // its name, for people
	Max    int           // attempts, at least 1
	Wait   time.Duration // for the first one; 0 does not wait
	Lease  time.Duration // positive
}

// OfferedAttempt is an attempt that a worker has taken.
type OfferedAttempt struct {
	Attempt  Attempt
	Input    []byte
	Lease    string
	Delivery int       // how often the attempt was taken, this time included
	Until    time.Time // the end of the lease, never after Deadline
	Deadline time.Time // the end of the attempt, however often the lease is extended
}

// Take returns up to ask.Max attempts. If none waits, it blocks for ask.Wait and then returns none. It returns
// ErrDraining if the host is about to stop, and no attempts if ctx ends.
func (b *Broker) Take(ctx context.Context, of WorkerQueue, ask TakeRequest) ([]OfferedAttempt, error) {
	late := make(chan struct{})
	stop := clock.AfterFunc(b.clock, ask.Wait, func() { close(late) })
	defer stop()
	waits := ask.Wait > 0
	for {
		ring := make(chan struct{}, 1)
		b.mu.Lock()
		if b.draining {
			b.tidy(of)
			b.mu.Unlock()
			return nil, ErrDraining
		}
		offers, taken := b.hand(b.queue(of), ask)
		if len(offers) > 0 || !waits || ctx.Err() != nil {
			b.tidy(of)
			b.mu.Unlock()
			for _, f := range taken {
				f()
			}
			return offers, nil
		}
		b.queue(of).asking = append(b.queue(of).asking, ring)
		b.mu.Unlock()
		select {
		case <-ring:
			continue
		case <-late:
		case <-ctx.Done():
		}
		b.mu.Lock()
		q := b.queue(of)
		if i := slices.Index(q.asking, ring); i >= 0 {
			q.asking = slices.Delete(q.asking, i, i+1)
		} else if q.waiting.Len() > 0 { // it was woken just now: pass that on
			q.wake()
		}
		b.tidy(of)
		draining := b.draining
		b.mu.Unlock()
		if draining {
			return nil, ErrDraining
		}
		return nil, nil
	}
}

// hand leases waiting attempts to a worker. mu is held.
func (b *Broker) hand(q *remoteQueue, ask TakeRequest) (offers []OfferedAttempt, taken []func()) {
	bytes := 0
	now := b.clock.Now()
	for w := q.first(); w != nil && len(offers) < ask.Max; w = q.first() {
		bytes += len(w.input)
		if len(offers) > 0 && bytes > maxBatchBytes {
			break
		}
		b.unwait(w)
		w.lease, w.worker, w.deadline = b.newLease(), ask.Worker, now.Add(w.attempt.Timeout)
		w.lasts(now, ask.Lease)
		w.deliveries++
		b.leases[w.lease] = w
		q.leased++
		b.arm(w, now)
		taken = append(taken, w.taken)
		offers = append(offers, OfferedAttempt{Attempt: w.attempt, Input: w.input, Lease: w.lease,
			Delivery: w.deliveries, Until: w.until, Deadline: w.deadline})
	}
	if q.waiting.Len() > 0 { // wake the next worker for the rest
		q.wake()
	}
	return offers, taken
}

// lasts sets the end of the lease to d from now, or to the deadline of the attempt if that is earlier.
func (w *offeredWork) lasts(now time.Time, d time.Duration) {
	w.until = now.Add(d)
	if w.deadline.Before(w.until) {
		w.until = w.deadline
	}
}

// find returns the attempt of a lease. mu is held.
func (b *Broker) find(of WorkerQueue, lease string) (*offeredWork, error) {
	w := b.leases[lease]
	if w == nil || w.in != of {
		return nil, ErrLost
	}
	return w, nil
}

// Extend is a worker's heartbeat: it marks the attempt as begun, and makes the lease end when d has passed from now, or
// at the deadline of the attempt. cancelled reports whether the workflow has cancelled the attempt.
func (b *Broker) Extend(of WorkerQueue, lease string, d time.Duration) (until time.Time, cancelled bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w, err := b.find(of, lease)
	if err != nil {
		return time.Time{}, false, err
	}
	now := b.clock.Now()
	w.begun = true
	if back := w.armed.Sub(now); back > 0 { // the clock was set back: the attempt gets no more time from that
		w.deadline = w.deadline.Add(-back)
	}
	w.lasts(now, d)
	w.stop()
	b.arm(w, now)
	return w.until, w.cancelled, nil
}

// Note saves details for the next worker, should this one be lost, and returns the attempt.
func (b *Broker) Note(of WorkerQueue, lease string, details []byte) (Attempt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w, err := b.find(of, lease)
	if err != nil {
		return Attempt{}, err
	}
	w.attempt.Details = details
	return w.attempt, nil
}

// Release returns an attempt that was not begun to its queue, as if it had not been taken.
func (b *Broker) Release(of WorkerQueue, lease string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	w, err := b.find(of, lease)
	if err != nil {
		return err
	}
	if w.cancelled {
		b.finish(w, workerResult{out: Unbegun()})
		return nil
	}
	w.deliveries--
	b.unlease(w)
	b.wait(w, true)
	b.tidy(w.in)
	return nil
}

// HandIn takes the outcome of an attempt, and returns when the record of it is durable. It returns ErrLost if the
// outcome is not recorded because no run waits for it. If ctx ends first, the outcome may still be recorded.
func (b *Broker) HandIn(ctx context.Context, of WorkerQueue, lease string, out run.StepOutcome) error {
	type answer struct {
		recorded bool
		err      error
	}
	c := make(chan answer, 1)
	b.mu.Lock()
	w, err := b.find(of, lease)
	if err == nil && w.attempt.AtMostOnce && !w.begun {
		err = ErrNotBegun
	}
	if err == nil {
		b.finish(w, workerResult{out, func(recorded bool, err error) { c <- answer{recorded, err} }})
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case a := <-c:
		if a.err == nil && !a.recorded {
			return ErrLost
		}
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WorkerQueueState counts the attempts and workers of a queue.
type WorkerQueueState struct {
	WorkerQueue
	Waiting, Leased, Asking int
	Oldest                  time.Time // when the attempt that has waited longest began to wait; zero if none waits
	Workers                 []string  // workers that have leases, sorted, without duplicates
}

// States returns the queues of a namespace that have attempts or waiting workers, sorted by handler.
func (b *Broker) States(ns store.NamespaceID) (list []WorkerQueueState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	workers := map[WorkerQueue][]string{}
	for _, w := range b.leases {
		workers[w.in] = append(workers[w.in], w.worker)
	}
	for of, q := range b.queues {
		if of.Namespace != ns {
			continue
		}
		s := WorkerQueueState{WorkerQueue: of, Waiting: q.waiting.Len(), Leased: q.leased, Asking: len(q.asking), Workers: workers[of]}
		slices.Sort(s.Workers)
		s.Workers = slices.Compact(s.Workers)
		for e := q.waiting.Front(); e != nil; e = e.Next() {
			if w := e.Value.(*offeredWork); s.Oldest.IsZero() || w.since.Before(s.Oldest) { //nolint:forcetypeassert // see first
				s.Oldest = w.since
			}
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(x, y WorkerQueueState) int { return cmp.Compare(x.Handler, y.Handler) })
	return list
}

// Waits returns a step of a run that waits for a worker, and its handler. If several wait, it returns the first by
// name; if none waits, false.
func (b *Broker) Waits(of store.RunKey) (step, handler string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for w := range b.runs[of] {
		if !ok || w.attempt.Step < step {
			step, handler, ok = w.attempt.Step, w.attempt.Handler, true
		}
	}
	return step, handler, ok
}
