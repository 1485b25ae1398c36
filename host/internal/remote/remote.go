// Package remote has attempts of steps that other processes perform: workers, which take them, say now and then that they are
// still at work, and hand in what came of them. A worker has an attempt by a lease. If the lease ends before the worker says
// something, nobody knows whether the worker is dead, stopped or cut off; the attempt is then offered to the next one under
// another lease, and what comes under the old one is refused.
//
//	Perform -> waiting -> leased -> outcome, handed in under the lease
//	              ^         |
//	              +---------+ the lease ended
//
// An attempt that may be made at most once is offered again only if nobody has begun it, so its worker has to say that it
// begins. Nothing here is durable: attempts that a host had when it died are made again when it starts, as those of
// functions are.
package remote

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
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/step"
	"github.com/wfhost/wfhost/store"
)

// Limits.
const (
	// maxDeliveries is how often an attempt is offered: one whose workers all die is likely to be what kills them. Then it has
	// failed, and the options of its step say whether there is another one.
	maxDeliveries = 5
	// maxBatchBytes bounds the inputs of one answer, but for the first: a batch of the largest inputs would take 100 MiB of
	// memory.
	maxBatchBytes = 4 << 20
	// leaseBytes are the random bytes of a lease: with 128 bits, nobody guesses one.
	leaseBytes = 16
)

// Errors.
var (
	// ErrLost says that there is no lease of that name any more: it has ended, or nobody waits for the attempt.
	ErrLost = errors.New("the lease has ended, or nobody waits for the attempt any more")
	// ErrNotBegun says that an attempt which may be made at most once was not begun before it was done.
	ErrNotBegun = errors.New("the attempt may be made at most once: send a heartbeat before it is begun")
	// ErrDraining says that the host is about to stop, and hands out nothing.
	ErrDraining = errors.New("the host is about to stop")
)

// Queue names the attempts that a worker may ask for: those of one handler in one namespace.
type Queue struct {
	Namespace store.NamespaceID
	Handler   string
}

// Broker has the attempts, and those who ask for them. It is safe for concurrent use.
type Broker struct {
	clock  clock.Clock
	random func(p []byte)

	mu       sync.Mutex // guards what follows; nothing is called but the clock's timers while it is held
	queues   map[Queue]*queue
	leases   map[string]*work
	runs     map[store.RunKey]map[*work]bool // attempts that no worker has
	draining bool
}

type queue struct {
	waiting list.List       // of *work, in the order in which they are offered; many may be cancelled at once, in any order
	asking  []chan struct{} // those who wait for one; each has room for one
	leased  int
}

// work is an attempt that is performed.
type work struct {
	in         Queue
	attempt    handler.Attempt
	input      []byte
	since      time.Time // when it began to wait
	deliveries int
	done       chan result // receives once
	over       bool
	place      *list.Element // in its queue, while it waits

	// Of the lease; zero while it waits.
	lease     string
	worker    string
	begun     bool
	cancelled bool
	until     time.Time // the end of the lease
	deadline  time.Time // the end of the attempt
	armed     time.Time // when the timer was set
	stop      func()    // of the timer
}

type result struct {
	out   step.Outcome
	reply handler.Reply
}

// New returns a Broker without attempts. random fills leases.
func New(c clock.Clock, random func(p []byte)) *Broker {
	return &Broker{clock: c, random: random, queues: map[Queue]*queue{}, leases: map[string]*work{},
		runs: map[store.RunKey]map[*work]bool{}}
}

func (b *Broker) queue(of Queue) *queue {
	q := b.queues[of]
	if q == nil {
		q = &queue{}
		b.queues[of] = q
	}
	return q
}

// tidy forgets a queue in which nothing is.
func (b *Broker) tidy(of Queue) {
	if q := b.queues[of]; q != nil && q.waiting.Len() == 0 && len(q.asking) == 0 && q.leased == 0 {
		delete(b.queues, of)
	}
}

// Perform offers an attempt to workers, and returns what came of it: see handler.Remote.
func (b *Broker) Perform(ctx context.Context, a handler.Attempt, input []byte, told func() bool) (step.Outcome, handler.Reply) {
	w := &work{in: Queue{a.Run.Namespace, a.Handler}, attempt: a, input: input, done: make(chan result, 1)}
	b.mu.Lock()
	w.since = b.clock.Now()
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
		b.finish(w, result{out: step.Outcome{Abandoned: true}})
	case w.lease == "" || w.attempt.AtMostOnce && !w.begun:
		b.finish(w, result{out: handler.Unbegun()})
	default:
		w.cancelled = true // the worker learns of it, and what it hands in is waited for
	}
	b.mu.Unlock()
	r := <-w.done
	return r.out, r.reply
}

// wait puts an attempt into its queue, or gives it up while the host drains. mu is held.
func (b *Broker) wait(w *work, front bool) {
	w.lease, w.worker, w.begun = "", "", false
	if b.draining {
		b.finish(w, result{out: w.givenUp()})
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
		b.runs[of] = map[*work]bool{}
	}
	b.runs[of][w] = true
	q.wake()
}

// givenUp returns the outcome of an attempt that nobody has begun, and that the host does not offer any more. One that may
// be made at most once was recorded before it was offered: without an outcome nobody would know that it has not begun.
func (w *work) givenUp() step.Outcome {
	if !w.attempt.AtMostOnce {
		return step.Outcome{Abandoned: true}
	}
	out := step.Failure(abi.KindError, "the host stopped before a worker began it", true)
	out.RetryAfterMs = 0
	return out
}

// first returns the attempt that is offered next, nil if none waits.
func (q *queue) first() *work {
	if e := q.waiting.Front(); e != nil {
		return e.Value.(*work) //nolint:forcetypeassert // it holds nothing else
	}
	return nil
}

// wake has one of those who ask look at the queue.
func (q *queue) wake() {
	if len(q.asking) > 0 {
		q.asking[0] <- struct{}{}
		q.asking = q.asking[1:]
	}
}

// unwait takes an attempt out of its queue. mu is held.
func (b *Broker) unwait(w *work) {
	if w.place != nil { // else it comes while the host drains
		b.queue(w.in).waiting.Remove(w.place)
		w.place = nil
	}
	b.leaveRun(w)
}

func (b *Broker) leaveRun(w *work) {
	of := w.attempt.Run
	if delete(b.runs[of], w); len(b.runs[of]) == 0 {
		delete(b.runs, of)
	}
}

// unlease ends the lease of an attempt. mu is held.
func (b *Broker) unlease(w *work) {
	w.stop()
	delete(b.leases, w.lease)
	b.queue(w.in).leased--
}

// finish ends an attempt. mu is held.
func (b *Broker) finish(w *work, r result) {
	if w.lease != "" {
		b.unlease(w)
	} else {
		b.unwait(w)
	}
	w.over = true
	w.done <- r
	b.tidy(w.in)
}

// SetDraining says whether the host is about to stop: then what waits is given up, those who ask are sent away, and leases
// go on.
func (b *Broker) SetDraining(draining bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.draining = draining
	if !draining {
		return
	}
	for _, q := range b.queues {
		for w := q.first(); w != nil; w = q.first() {
			b.finish(w, result{out: w.givenUp()})
		}
		for len(q.asking) > 0 {
			q.wake()
		}
	}
}

// Close gives up all attempts, leased ones too: the host is closed, and what workers hand in cannot be recorded.
func (b *Broker) Close() {
	b.SetDraining(true)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.leases {
		b.finish(w, result{out: step.Outcome{Abandoned: true}})
	}
}

// newLease returns the name of a lease.
func (b *Broker) newLease() string {
	var p [leaseBytes]byte
	b.random(p[:])
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(p[:])
}

// arm sets the timer of a lease: it rings at its end, which is that of the attempt at the latest. mu is held.
func (b *Broker) arm(w *work, now time.Time) {
	lease := w.lease
	w.armed = now
	w.stop = clock.AfterFunc(b.clock, w.until.Sub(now), func() { b.ring(w, lease) })
}

// ring looks at a lease whose timer has rung.
func (b *Broker) ring(w *work, lease string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	switch {
	case w.over || w.lease != lease: // it was handed in at this moment
	case !now.Before(w.deadline), now.Before(w.armed) && w.until.Equal(w.deadline):
		b.finish(w, result{out: step.Timeout(w.attempt.Timeout)})
	case now.Before(w.until) && !now.Before(w.armed): // it was extended; if the clock was set back, the time has passed
		w.stop()
		b.arm(w, now)
	default:
		b.lose(w)
	}
}

// lose decides what becomes of an attempt whose lease has ended. mu is held.
func (b *Broker) lose(w *work) {
	switch who := describe(w.worker); {
	case w.attempt.AtMostOnce && w.begun:
		b.finish(w, result{out: step.Failure(abi.KindUnknown,
			who+" has begun the only attempt and was not heard of until its lease ended; nobody knows its outcome", false)})
	case w.cancelled:
		b.finish(w, result{out: step.Failure(abi.KindError, "cancelled, and "+who+" was not heard of until its lease ended", false)})
	case w.deliveries >= maxDeliveries:
		b.finish(w, result{out: step.Failure(abi.KindError, fmt.Sprintf(
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
