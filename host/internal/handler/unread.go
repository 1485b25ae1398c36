package handler

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// unread holds the attempts of a namespace whose limits have not been read. They ask again when the limits have been
// read.
type unread struct {
	waiting []*waiter
	failed  bool // they could not be read
}

// limitsAgain is the delay before limits that could not be read are read again.
const limitsAgain = time.Second

// askLater makes an attempt ask again when the limits of its namespace have been read.
func (r *Registry) askLater(a *run.Ask) run.Verdict {
	ns := a.Run.Namespace
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.unread[ns]
	if u == nil {
		u = &unread{}
		r.unread[ns] = u
		r.cfg.Background(func(ctx context.Context) { r.readLimits(ctx, ns) })
	}
	w := r.asks.find(askKey{a.Run, a.Handle})
	if w == nil {
		none := &handlerPlaces{placesKey: placesKey{name: a.Handler}}
		w = &waiter{askKey: askKey{a.Run, a.Handle}, places: none, unread: true, told: u.failed}
		r.asks.add(w)
		u.waiting = append(u.waiting, w)
	}
	return r.verdictLocked(w)
}

// readLimits reads the limits of a namespace, and makes its attempts ask again.
func (r *Registry) readLimits(ctx context.Context, ns store.NamespaceID) {
	for r.cfg.Limiter.Load(ctx, ns) != nil { // which has logged why
		for _, key := range r.limitsUnreadable(ns) {
			r.cfg.Runs.Queued(key.run, key.handle)
		}
		if !r.rest(ctx, limitsAgain) {
			return
		}
	}
	r.mu.Lock()
	list := r.unread[ns].waiting
	delete(r.unread, ns)
	waiting := list[:0]
	for _, w := range list {
		if r.asks.find(w.askKey) == w { // else it was withdrawn
			r.asks.remove(w)
			waiting = append(waiting, w)
		}
	}
	r.mu.Unlock()
	for _, w := range waiting {
		r.cfg.Runs.Admitted(w.run, run.Admitted{Handle: w.handle, Handler: w.places.name})
	}
}

// limitsUnreadable returns the attempts of a namespace whose runs do not know yet that they wait.
func (r *Registry) limitsUnreadable(ns store.NamespaceID) (tell []askKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.unread[ns]
	u.failed = true
	for _, w := range u.waiting {
		if r.asks.find(w.askKey) == w && !w.told {
			w.told = true
			tell = append(tell, w.askKey)
		}
	}
	return tell
}

// rest waits in a function of Config.Background, without counting as activity. It returns false if the host has
// ended.
func (r *Registry) rest(ctx context.Context, d time.Duration) bool {
	if a := r.cfg.Activity; a != nil {
		a.Done()
		defer a.Begin()
	}
	t := clock.System().NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return true
	case <-ctx.Done():
		return false
	}
}
