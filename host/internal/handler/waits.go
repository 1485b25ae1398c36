package handler

import (
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Asks reports whether an attempt of a run waits.
func (r *Registry) Asks(of store.RunKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asks.peek(of) != nil
}

// Waiting describes what an attempt waits for.
type Waiting struct {
	Handler string
	Why     Why
	Calls   int // in flight, with WaitsForHandler and WaitsForAll
	// Before is the number of attempts with an earlier turn, at most MaxBefore: of its workflow or, with WaitsForAll, of
	// its namespace.
	Before int
	Slot   SlotWaits // with WaitsForSlot
}

// Why says why an attempt waits.
type Why uint8

const (
	WaitsForSlot      Why = iota // its handler has limits
	WaitsForLimits               // the limits of its namespace's handlers have not been read, or cannot be read
	WaitsUnhandled               // no handler of that name is registered
	WaitsForHandler              // all places of its handler are taken
	WaitsForAll                  // all places of all handlers are taken
	WaitsForNamespace            // its namespace has its maximum of places
	WaitsForWorker               // no worker has taken it
	WaitsForInstance             // it is a body or step function, and waits behind other ones
	WaitsForTrial                // its run has crashed the host, and waits for its trial
	WaitsForStop                 // the host stops
)

// Waits returns what an attempt of a run waits for; false if none waits. Of several attempts it takes the one whose
// step was called first.
func (r *Registry) Waits(of store.RunKey) (w Waiting, ok bool) {
	held := r.cfg.Watch.Subject(uint32(of.Namespace), of.ID).AwaitsTrial()
	r.mu.Lock()
	x := r.asks.peek(of)
	if x == nil {
		r.mu.Unlock()
		return w, false
	}
	for _, o := range x.of {
		if o.handle < x.handle {
			x = o
		}
	}
	w.Handler, w.Why = x.places.name, r.whyLocked(x, held)
	if w.Why == WaitsForHandler || w.Why == WaitsForAll {
		p := &x.places.places
		if w.Why == WaitsForAll {
			p = r.all
		}
		w.Calls = p.limit - p.free
	}
	if x.queue != nil {
		w.Before = x.queue.before(x.turnOrder)
	}
	slot := x.slot
	r.mu.Unlock()
	if w.Why == WaitsForSlot && slot != nil {
		w.Slot = slot.Waits()
	}
	return w, true
}

func (r *Registry) whyLocked(x *waiter, held bool) Why {
	p := &x.places.places
	if x.own {
		p = r.all
	}
	switch {
	case r.performers[x.places.name].none():
		return WaitsUnhandled
	case held:
		return WaitsForTrial
	case x.unread:
		return WaitsForLimits
	case x.queue == nil:
		return WaitsForSlot
	case r.draining:
		return WaitsForStop
	case x.places.name == run.Instances:
		return WaitsForInstance
	case x.places.remote:
		return WaitsForWorker
	case p.free > 0 && p.several:
		return WaitsForNamespace
	case x.own:
		return WaitsForAll
	}
	return WaitsForHandler
}

// WaitingOf returns the number of attempts of a remote handler that wait for a place, so that no worker can take them
// yet.
func (r *Registry) WaitingOf(name string, ns store.NamespaceID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rm := r.byHandler[placesKey{name: name, remote: true, ns: ns}]; rm != nil {
		return rm.waits
	}
	return 0
}

// Len returns how many attempts wait.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asks.all
}
