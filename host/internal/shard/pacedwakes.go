package shard

import (
	"slices"

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
	queues map[store.NamespaceID]*timers.Set[TimerKey] // none is empty
	order  []store.NamespaceID                         // the keys of queues; the next namespace in turn stands first
}

// has reports whether runs of k's namespace wait.
func (p *pacedWakes) has(k TimerKey) bool { return p.queues[k.Run.Namespace] != nil }

func (p *pacedWakes) put(k TimerKey, dueUnixMs int64) {
	ns := k.Run.Namespace
	if p.queues[ns] == nil {
		if p.queues == nil {
			p.queues = map[store.NamespaceID]*timers.Set[TimerKey]{}
		}
		p.queues[ns] = &timers.Set[TimerKey]{}
		p.order = append(p.order, ns)
	}
	p.queues[ns].Put(k, dueUnixMs)
}

func (p *pacedWakes) remove(k TimerKey) {
	if q := p.queues[k.Run.Namespace]; q != nil && q.Remove(k) {
		p.tidy(k.Run.Namespace)
	}
}

// tidy removes the queue of a namespace if it is empty.
func (p *pacedWakes) tidy(ns store.NamespaceID) {
	if p.queues[ns].Len() == 0 {
		delete(p.queues, ns)
		p.order = slices.DeleteFunc(p.order, func(x store.NamespaceID) bool { return x == ns })
	}
}

// pop removes and returns a run that may be woken now; false if there is none. It returns now as the deadline, so the wait does
// not count as lateness.
func (p *pacedWakes) pop(now int64, pacer WakePacer) (k TimerKey, dueUnixMs int64, ok bool) {
	for i, ns := range p.order {
		if due, _ := p.queues[ns].Next(); !pacer.Wake(uint32(ns), now, due) {
			continue
		}
		k, _, ok = p.queues[ns].Pop(Never)
		p.order = append(append(slices.Clone(p.order[:i]), p.order[i+1:]...), ns)
		p.tidy(ns)
		return k, now, ok
	}
	return k, 0, false
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
	for _, ns := range p.order {
		due, _ := p.queues[ns].Next()
		unixMs = min(unixMs, pacer.NextWake(uint32(ns), due))
	}
	return unixMs, len(p.order) > 0
}

func (p *pacedWakes) len() (n int) {
	for _, q := range p.queues {
		n += q.Len()
	}
	return n
}
