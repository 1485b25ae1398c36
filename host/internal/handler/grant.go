package handler

import (
	"cmp"
	"maps"
	"slices"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// bodiesAhead is how many bodies and step functions of a namespace wait for an instance in memory, each with a goroutine: enough
// to begin whenever there is room for a guest.
const bodiesAhead = 32

// placesOfLocked returns the places of a handler for a namespace.
func (r *Registry) placesOfLocked(name string, ns store.NamespaceID) *handlerPlaces {
	p := r.performers[name]
	key := placesKey{name: name, remote: p.remote != nil}
	if key.remote {
		key.ns = ns
	}
	rm := r.byHandler[key]
	if rm == nil {
		rm = &handlerPlaces{placesKey: key, places: *newPlaces(r.cfg.MaxCallsPerHandler, r.cfg.Shared)}
		if key.remote {
			n := r.cfg.Offered
			if name == run.Instances {
				n = min(n, bodiesAhead)
			}
			rm.places = *newPlaces(n, nil)
			rm.private = true
		}
		rm.closed, rm.asks = p.none(), &r.asks
		r.byHandler[key] = rm
	}
	return rm
}

// grantLocked gives free places of a handler, and of all handlers, to waiting attempts.
func (r *Registry) grantLocked(rm *handlerPlaces) (ready []admitted) {
	if r.draining {
		return nil
	}
	for w := rm.pop(); w != nil; w = rm.pop() {
		if r.enterAllLocked(w) {
			ready = append(ready, r.admitLocked(w))
		}
	}
	return ready
}

// grantAllLocked gives free places of all handlers to attempts that have a place of their own handler.
func (r *Registry) grantAllLocked() (ready []admitted) {
	if r.draining {
		return nil
	}
	for w := r.all.pop(); w != nil; w = r.all.pop() {
		ready = append(ready, r.admitLocked(w))
	}
	return ready
}

func (r *Registry) admitLocked(w *waiter) admitted {
	r.asks.remove(w)
	r.lingering.end(w)
	return admitted{w.askKey, w.place(r)}
}

func (r *Registry) returnLocked(p *Place) (ready []admitted) {
	p.places.giveBack(p.ns)
	if p.all {
		r.all.giveBack(p.ns)
		ready = r.grantAllLocked()
	}
	ready = append(ready, r.grantLocked(p.places)...)
	r.tidyLocked(p.places)
	return ready
}

func (r *Registry) withdrawLocked(w *waiter) (ready []admitted) {
	r.asks.remove(w)
	r.lingering.end(w)
	r.soonLocked(w, false)
	switch {
	case w.queue == nil: // it is held, or waits for a slot
	case w.own:
		r.all.withdraw(w)
		w.places.giveBack(w.run.Namespace)
		ready = r.grantLocked(w.places)
	default:
		w.places.withdraw(w)
	}
	r.tidyLocked(w.places)
	return ready
}

// tidyLocked drops the places of a handler if they are not in use.
func (r *Registry) tidyLocked(rm *handlerPlaces) {
	if len(rm.by) == 0 && r.byHandler[rm.placesKey] == rm {
		delete(r.byHandler, rm.placesKey)
	}
}

// moveLocked is called when a handler is replaced: it moves waiting attempts to the queue of the new handler.
func (r *Registry) moveLocked(name string) (ready []admitted) {
	var old []*handlerPlaces
	for key, rm := range r.byHandler {
		if key.name == name {
			old = append(old, rm)
		}
	}
	slices.SortFunc(old, func(a, b *handlerPlaces) int { return cmp.Compare(a.ns, b.ns) })
	touched := map[*handlerPlaces]bool{}
	for _, rm := range old {
		rm.closed = rm.remote != (r.performers[name].remote != nil)
		for _, l := range rm.queues() {
			to := r.placesOfLocked(name, l.in.id)
			if !touched[to] {
				touched[to] = true
				old = append(old, to)
			}
			if to != rm {
				rm.move(l, to)
			}
		}
	}
	for _, rm := range old {
		if touched[rm] {
			ready = append(ready, r.grantLocked(rm)...)
		}
		r.tidyLocked(rm)
	}
	return ready
}

// move makes the attempts of a workflow wait for other places. Later attempts for the new places queue behind them.
func (rm *handlerPlaces) move(l *workflowQueue, to *handlerPlaces) {
	to.number = max(to.number, rm.number)
	for _, w := range slices.Clone(l.waiters) {
		rm.withdraw(w)
		w.places = to
		to.push(w, l.workflow)
	}
	for _, p := range slices.Clone(l.packed) {
		p.move(to)
	}
}

// SetDraining sets whether the host is about to stop. In that state, no attempt gets a slot or a place, and remote
// handlers give up the attempts that no worker has taken.
func (r *Registry) SetDraining(draining bool) {
	if draining {
		r.setDraining(true)
	}
	r.mu.Lock()
	remotes := map[Remote]bool{}
	for _, p := range r.performers {
		if p.remote != nil {
			remotes[p.remote] = true
		}
	}
	r.mu.Unlock()
	if r.cfg.Limiter != nil {
		r.cfg.Limiter.SetDraining(draining)
	}
	for m := range remotes {
		m.SetDraining(draining)
	}
	if !draining { // last, so that no attempt reaches a remote handler that still gives up attempts
		r.setDraining(false)
	}
}

func (r *Registry) setDraining(draining bool) {
	r.mu.Lock()
	r.draining = draining
	var ready []admitted
	if !draining {
		ready = r.grantAllLocked()
		for _, rm := range slices.SortedFunc(maps.Values(r.byHandler), comparePlaces) {
			ready = append(ready, r.grantLocked(rm)...)
		}
	}
	r.mu.Unlock()
	r.tell(ready)
	r.pulse()
}

func comparePlaces(a, b *handlerPlaces) int {
	return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.ns, b.ns))
}
