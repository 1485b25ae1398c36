package shard

import (
	"github.com/wfhost/wfhost/host/internal/fairqueue"
	"github.com/wfhost/wfhost/host/internal/timers"
	"github.com/wfhost/wfhost/store"
)

// WakePacer limits the rate at which the runs of each namespace are woken. Its methods may be called concurrently and do
// not block.
type WakePacer interface {
	// Wake reports whether a run that was due at dueMs may be woken now. If so, it counts the wake.
	Wake(namespace uint32, nowMs, dueMs int64) bool
	// NextWake returns the earliest instant at which Wake may admit a run that was due at dueMs.
	NextWake(namespace uint32, dueMs int64) int64
	// May reports whether runs of a namespace may continue without a wake.
	May(namespace uint32, nowMs int64) bool
	// Wrote counts bytes that a run of a namespace writes.
	Wrote(namespace uint32, bytes int, nowMs int64)
}

// pacedWakes holds the due runs that must wait because their namespaces have used up their wakes, or owe bytes. Within a
// namespace, the run that was due first goes first. Namespaces take turns.
type pacedWakes struct {
	queues map[store.NamespaceID]*pacedQueue // none is empty
	turns  fairqueue.Turns[*pacedQueue]
}

// pacedQueue holds the due runs of a namespace.
type pacedQueue struct {
	timers.Set[TimerKey]
	of   store.NamespaceID
	turn fairqueue.Turn[*pacedQueue]
}

// has reports whether runs of k's namespace wait.
func (p *pacedWakes) has(k TimerKey) bool { return p.queues[k.Run.Namespace] != nil }

func (p *pacedWakes) put(k TimerKey, dueUnixMs int64) {
	ns := k.Run.Namespace
	q := p.queues[ns]
	if q == nil {
		if p.queues == nil {
			p.queues = map[store.NamespaceID]*pacedQueue{}
		}
		q = &pacedQueue{of: ns}
		q.turn.Group = q
		p.queues[ns] = q
		p.turns.Join(&q.turn)
	}
	q.Put(k, dueUnixMs)
}

func (p *pacedWakes) remove(k TimerKey) {
	if q := p.queues[k.Run.Namespace]; q != nil && q.Remove(k) {
		p.tidy(q)
	}
}

// tidy removes the queue of a namespace if it is empty.
func (p *pacedWakes) tidy(q *pacedQueue) {
	if q.Len() == 0 {
		delete(p.queues, q.of)
		p.turns.Leave(&q.turn)
	}
}

// pop removes and returns a run that may be woken now; false if there is none. It returns now as the deadline, so the wait does
// not count as lateness.
func (p *pacedWakes) pop(now int64, pacer WakePacer) (k TimerKey, dueUnixMs int64, ok bool) {
	turn := p.turns.First(func(q *pacedQueue) bool {
		due, _ := q.Next()
		return pacer.Wake(uint32(q.of), now, due)
	})
	if turn == nil {
		return k, 0, false
	}
	k, _, ok = turn.Group.Pop(Never)
	p.turns.Had(turn)
	p.tidy(turn.Group)
	return k, now, ok
}

func (p *pacedWakes) due(k TimerKey) (dueUnixMs int64, ok bool) {
	if q := p.queues[k.Run.Namespace]; q != nil {
		return q.Due(k)
	}
	return 0, false
}

// next returns when the next waiting run may be woken; false if no run waits.
func (p *pacedWakes) next(pacer WakePacer) (unixMs int64, ok bool) {
	unixMs = Never
	for q := range p.turns.All {
		due, _ := q.Next()
		unixMs = min(unixMs, pacer.NextWake(uint32(q.of), due))
	}
	return unixMs, p.turns.Len() > 0
}

func (p *pacedWakes) len() (n int) {
	for _, q := range p.queues {
		n += q.Len()
	}
	return n
}
