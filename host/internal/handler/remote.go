package handler

import (
	"container/list"
	"context"
	"encoding/base32"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Limits.
const (
	// maxDeliveries is how often an attempt is offered: an attempt whose workers all die probably kills them. After that
	// it has failed, and the options of its step say whether another attempt follows.
	maxDeliveries = 5
	// maxBatchBytes bounds the inputs in one answer; a single attempt may exceed it. A batch of the largest inputs would
	// take 100 MiB of memory.
	maxBatchBytes = 4 << 20
	// leaseBytes is the number of random bytes in a lease: 128 bits cannot be guessed.
	leaseBytes = 16
)

// Errors.
var (
	// ErrLost reports that a lease has ended, or that no run waits for its attempt any more.
	ErrLost = errors.New("the lease has ended, or nobody waits for the attempt any more")
	// ErrNotBegun reports an outcome of an attempt that may be made at most once and whose worker has not sent a heartbeat.
	ErrNotBegun = errors.New("the attempt may be made at most once: send a heartbeat before it is begun")
	// ErrDraining reports that the host is about to stop, and hands out no attempts.
	ErrDraining = errors.New("the host is about to stop")
)

// WorkerQueue identifies a queue of attempts for workers: of one handler in one namespace.
type WorkerQueue struct {
	Namespace store.NamespaceID
	Handler   string
}

// Broker lets other processes perform steps: workers take attempts, send heartbeats, and report the outcomes. A worker holds
// an attempt by a lease. If the lease ends without a heartbeat, the worker may be dead, stopped or cut off; the attempt is then
// offered again under a new lease, and outcomes under the old one are refused.
//
//	Perform -> waiting -> leased -> outcome, handed in under the lease
//	              ^         |
//	              +---------+ the lease ended
//
// An attempt that may be made at most once is offered again only if no worker has begun it, so its worker must report that it
// begins. Nothing here is durable: when a host dies, its attempts are made again when it starts, as the attempts of Go functions
// are. A Broker is safe for concurrent use.
type Broker struct {
	clock  clock.Clock
	random func(p []byte)

	// Unasked is called when an attempt begins to wait in an empty queue for which no worker asks here. It must not block. nil:
	// nobody wants to know. It is set before the first attempt.
	Unasked func(WorkerQueue)

	mu       sync.Mutex // guards the fields below; only the clock and random are called while it is held
	queues   map[WorkerQueue]*remoteQueue
	leases   map[string]*offeredWork                // by lease
	runs     map[store.RunKey]map[*offeredWork]bool // waiting attempts
	draining bool
}

type remoteQueue struct {
	waiting list.List       // of *offeredWork, in the order of offers; many may be cancelled at once, in any order
	asking  []chan struct{} // workers that wait for an attempt; buffered 1
	leased  int
}

// offeredWork is an attempt that waits for a worker or is leased.
type offeredWork struct {
	in         WorkerQueue
	attempt    Attempt
	input      []byte
	since      time.Time // when it could have begun
	deliveries int
	taken      func()            // is called when a worker has taken it
	done       chan workerResult // receives once, when the attempt is over
	over       bool
	place      *list.Element // in its queue; nil while it is leased

	// Fields of the lease. lease is empty while the attempt waits.
	lease     string
	worker    string
	begun     bool
	cancelled bool
	until     time.Time // the end of the lease
	deadline  time.Time // the end of the attempt
	armed     time.Time // when the timer was set
	stop      func()    // stops the timer
}

type workerResult struct {
	out   run.StepOutcome
	reply Reply
}

// NewBroker returns an empty Broker. random fills p with random bytes; leases are made from them.
func NewBroker(c clock.Clock, random func(p []byte)) *Broker {
	return &Broker{clock: c, random: random, queues: map[WorkerQueue]*remoteQueue{}, leases: map[string]*offeredWork{},
		runs: map[store.RunKey]map[*offeredWork]bool{}}
}

func (b *Broker) queue(of WorkerQueue) *remoteQueue {
	q := b.queues[of]
	if q == nil {
		q = &remoteQueue{}
		b.queues[of] = q
	}
	return q
}

// tidy removes a queue that is empty.
func (b *Broker) tidy(of WorkerQueue) {
	if q := b.queues[of]; q != nil && q.waiting.Len() == 0 && len(q.asking) == 0 && q.leased == 0 {
		delete(b.queues, of)
	}
}

// Perform offers an attempt to workers, and returns its outcome: see handler.Remote.
func (b *Broker) Perform(ctx context.Context, a Attempt, input []byte, told func() bool, taken func()) (run.StepOutcome, Reply) {
	w := &offeredWork{in: WorkerQueue{a.Run.Namespace, a.Handler}, attempt: a, input: input, taken: taken,
		done: make(chan workerResult, 1)}
	b.mu.Lock()
	if w.since = time.UnixMilli(a.SinceMs); a.SinceMs == 0 {
		w.since = b.clock.Now()
	}
	b.wait(w, false)
	b.mu.Unlock()
	select {
	case r := <-w.done:
		return r.out, r.reply
	case <-ctx.Done():
	}
	b.mu.Lock()
	switch {
	case w.over:
	case !told():
		b.finish(w, workerResult{out: run.StepOutcome{Abandoned: true}})
	case w.lease == "" || w.attempt.AtMostOnce && !w.begun:
		b.finish(w, workerResult{out: Unbegun()})
	default:
		w.cancelled = true // the worker learns of it, and Perform waits for its outcome
	}
	b.mu.Unlock()
	r := <-w.done
	return r.out, r.reply
}

// wait puts an attempt into its queue, or gives it up while the host drains. mu is held.
func (b *Broker) wait(w *offeredWork, front bool) {
	w.lease, w.worker, w.begun = "", "", false
	if b.draining {
		b.finish(w, workerResult{out: w.givenUp()})
		return
	}
	q := b.queue(w.in)
	if front {
		w.place = q.waiting.PushFront(w)
	} else {
		w.place = q.waiting.PushBack(w)
	}
	of := w.attempt.Run
	if b.runs[of] == nil {
		b.runs[of] = map[*offeredWork]bool{}
	}
	b.runs[of][w] = true
	if b.Unasked != nil && len(q.asking) == 0 && q.waiting.Len() == 1 {
		b.Unasked(w.in)
	}
	q.wake()
}

// givenUp returns the outcome of an attempt that no worker has begun and that the host no longer offers. It is a
// failure for an attempt that may be made at most once: such an attempt was recorded before it was offered, and without
// an outcome the run could not know that it never began.
func (w *offeredWork) givenUp() run.StepOutcome {
	if !w.attempt.AtMostOnce {
		return run.StepOutcome{Abandoned: true}
	}
	out := run.StepFailure(abi.KindError, "the host stopped before a worker began it", true)
	out.RetryAfterMs = 0
	return out
}

// first returns the attempt that is offered next, and nil if none waits.
func (q *remoteQueue) first() *offeredWork {
	if e := q.waiting.Front(); e != nil {
		return e.Value.(*offeredWork) //nolint:forcetypeassert // the list holds only *work
	}
	return nil
}

// wake tells one waiting worker to look at the queue again.
func (q *remoteQueue) wake() {
	if len(q.asking) > 0 {
		q.asking[0] <- struct{}{}
		q.asking = q.asking[1:]
	}
}

// unwait removes an attempt from its queue. mu is held.
func (b *Broker) unwait(w *offeredWork) {
	if w.place != nil { // it is nil if the attempt came while the host drains
		b.queue(w.in).waiting.Remove(w.place)
		w.place = nil
	}
	b.leaveRun(w)
}

func (b *Broker) leaveRun(w *offeredWork) {
	of := w.attempt.Run
	if delete(b.runs[of], w); len(b.runs[of]) == 0 {
		delete(b.runs, of)
	}
}

// unlease ends the lease of an attempt. mu is held.
func (b *Broker) unlease(w *offeredWork) {
	w.stop()
	delete(b.leases, w.lease)
	b.queue(w.in).leased--
}

// finish ends an attempt. mu is held.
func (b *Broker) finish(w *offeredWork, r workerResult) {
	if w.lease != "" {
		b.unlease(w)
	} else {
		b.unwait(w)
	}
	w.over = true
	w.done <- r
	b.tidy(w.in)
}

// SetDraining sets whether the host is about to stop. If so, waiting attempts are given up, waiting workers get
// ErrDraining, and leases continue.
func (b *Broker) SetDraining(draining bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.draining = draining
	if !draining {
		return
	}
	for _, q := range b.queues {
		for w := q.first(); w != nil; w = q.first() {
			b.finish(w, workerResult{out: w.givenUp()})
		}
		for len(q.asking) > 0 {
			q.wake()
		}
	}
}

// Close gives up all attempts, including leased ones: the host is closed, and outcomes can no longer be recorded.
func (b *Broker) Close() {
	b.SetDraining(true)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.leases {
		b.finish(w, workerResult{out: run.StepOutcome{Abandoned: true}})
	}
}

// newLease returns a random lease.
func (b *Broker) newLease() string {
	var p [leaseBytes]byte
	b.random(p[:])
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(p[:])
}

// arm sets the timer for the end of a lease, which is never after the end of the attempt. mu is held.
func (b *Broker) arm(w *offeredWork, now time.Time) {
	lease := w.lease
	w.armed = now
	w.stop = clock.AfterFunc(b.clock, w.until.Sub(now), func() { b.ring(w, lease) })
}

// ring handles the timer of a lease.
func (b *Broker) ring(w *offeredWork, lease string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	switch {
	case w.over || w.lease != lease: // the outcome was handed in just now
	case !now.Before(w.deadline), now.Before(w.armed) && w.until.Equal(w.deadline):
		b.finish(w, workerResult{out: run.StepTimeout(w.attempt.Timeout)})
	case now.Before(w.until) && !now.Before(w.armed): // it was extended; if the clock was set back, the time has passed
		w.stop()
		b.arm(w, now)
	default:
		b.lose(w)
	}
}

// lose handles an attempt whose lease has ended: it fails, or is offered again. mu is held.
func (b *Broker) lose(w *offeredWork) {
	switch who := describe(w.worker); {
	case w.attempt.AtMostOnce && w.begun:
		b.finish(w, workerResult{out: run.StepFailure(abi.KindUnknown,
			who+" has begun the only attempt and was not heard of until its lease ended; nobody knows its outcome", false)})
	case w.cancelled:
		message := "cancelled, and " + who + " was not heard of until its lease ended"
		b.finish(w, workerResult{out: run.StepFailure(abi.KindError, message, false)})
	case w.deliveries >= maxDeliveries:
		b.finish(w, workerResult{out: run.StepFailure(abi.KindError, fmt.Sprintf(
			"%d workers took the attempt and were not heard of until their leases ended; the last one was %s", w.deliveries, who), true)})
	default:
		b.unlease(w)
		b.wait(w, true)
		b.tidy(w.in)
	}
}

func describe(worker string) string {
	if worker == "" {
		return "a worker without a name"
	}
	return fmt.Sprintf("the worker %q", worker)
}
