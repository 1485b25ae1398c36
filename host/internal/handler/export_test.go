package handler

import (
	"fmt"

	"github.com/wfhost/wfhost/store"
)

// Remembered returns the number of entries for namespaces in the maps of the registry, plus the number of handlers
// with places.
func (r *Registry) Remembered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.all.by) + len(r.byHandler) + len(r.late) + len(r.asks.packed.all)
	for _, runs := range r.asks.by {
		n += len(runs)
	}
	for _, runs := range r.asks.packed.by {
		n += len(runs)
	}
	for _, places := range r.byHandler {
		n += len(places.by)
	}
	return n
}

// PackFrom makes the registry pack attempts if at least n attempts of a workflow wait, except for the next ones.
func (r *Registry) PackFrom(n, except int) { r.asks.packed.from, r.asks.packed.kept = n, except }

// Packed returns how many attempts are packed.
func (r *Registry) Packed() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, runs := range r.asks.packed.by {
		n += len(runs)
	}
	return n
}

// CheckQueues returns an error if counts, heaps or indexes of waiting attempts contradict each other.
func (r *Registry) CheckQueues() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	packed := 0
	for key, rm := range r.byHandler {
		n, err := r.checkPlaces(&rm.places)
		if err != nil || len(rm.by) == 0 {
			return fmt.Errorf("places of %v for %d namespaces: %w", key, len(rm.by), err)
		}
		packed += n
	}
	if _, err := r.checkPlaces(r.all); err != nil {
		return err
	}
	n := packed
	for _, runs := range r.asks.by {
		for _, w := range runs {
			n += max(len(w.of), 1)
		}
	}
	for _, runs := range r.asks.packed.by {
		packed -= len(runs)
	}
	if n != r.asks.all || packed != 0 {
		return fmt.Errorf("%d attempts are counted, there are %d; %d packed ones are not in the index", r.asks.all, n, packed)
	}
	return nil
}

func (r *Registry) checkPlaces(p *places) (packed int, err error) {
	waits, has := 0, 0
	for _, t := range p.by {
		n := 0
		for _, l := range t.of {
			k, err := r.checkQueue(l)
			if err != nil {
				return 0, err
			}
			packed += k
			n += k + len(l.waiters)
		}
		waits, has = waits+n, has+t.has
		if n != t.waits || n+t.has == 0 || n > 0 && p.waiting[t.at] != t {
			return 0, fmt.Errorf("namespace %d: %d wait, %d are counted, %d places", t.id, n, t.waits, t.has)
		}
	}
	if waits != p.waits || has != p.limit-p.free {
		return 0, fmt.Errorf("%d wait, %d are counted; %d places are taken, %d are counted", waits, p.waits, has, p.limit-p.free)
	}
	return packed, nil
}

func (r *Registry) checkQueue(l *workflowQueue) (packed int, err error) {
	for i, w := range l.waiters {
		if w.at != i || w.queue != l || i > 0 && l.Less(i, (i-1)/2) {
			return 0, fmt.Errorf("the heap of %s is wrong at %d", l.workflow, i)
		}
	}
	for i, p := range l.packed {
		n, last := 0, turnOrder{}
		for e := range p.all {
			key := store.RunKey{Namespace: l.in.id, ID: string(e.id)}
			if n > 0 && !last.before(e.turnOrder) || r.asks.packed.of(key) != p {
				return 0, fmt.Errorf("%s: attempt %d of %v is not in its order or index", l.workflow, n, key)
			}
			last = e.turnOrder
			n++
		}
		if n == 0 || n > packMost || n != p.n || last != p.last || p.at != i || p.queue != l || i > 0 && l.packed.Less(i, (i-1)/2) {
			return 0, fmt.Errorf("%s: packed attempts are wrong at %d: %d, %d are counted", l.workflow, i, n, p.n)
		}
		packed += n
	}
	return packed, nil
}
