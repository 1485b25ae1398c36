package handler

import (
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// placesKey identifies the places of a handler. A function shares its places among all namespaces; a remote handler
// has separate places in each namespace, since each namespace has its own workers.
type placesKey struct {
	name   string
	remote bool
	ns     store.NamespaceID // 0 unless remote
}

// handlerPlaces holds the places of a handler.
type handlerPlaces struct {
	placesKey
	places
}

// Place admits an attempt: it holds one of the handler's places until Return, or until a worker has taken the
// attempt.
type Place struct {
	r      *Registry
	places *handlerPlaces
	ns     store.NamespaceID
	since  int64 // see run.Ask.SinceMs
	slot   Slot  // for a handler with limits; nil = none
	tried  bool  // see waiter
	all    bool  // it is also one of the places of all handlers
	late   bool  // its attempt is over, but its handler has not returned
	over   bool  // it was returned
}

// admitted is an attempt that was waiting and now has a place.
type admitted struct {
	key   askKey
	place *Place
}

// Ask gives an attempt a place, or queues it. A waiting attempt keeps its turn when it asks again. The attempt of a
// handler with limits first waits for a slot, and then for a place.
func (r *Registry) Ask(a run.Ask) (place any, v run.Verdict) {
	if a.Anew {
		r.WithdrawRun(a.Run)
	}
	limited, known, handled := false, true, r.Handled(a.Handler)
	if r.cfg.Limiter != nil && handled {
		limited, known = r.cfg.Limiter.Limited(a.Run.Namespace, a.Handler)
	}
	r.mu.Lock()
	if r.performers[a.Handler].none() == handled { // it was registered meanwhile
		r.mu.Unlock()
		return r.Ask(a)
	}
	w := r.asks.find(askKey{a.Run, a.Handle})
	switch {
	case w == nil:
	case w.places.name != a.Handler: // of another attempt
		r.mu.Unlock()
		r.Withdraw(a.Run, a.Handle)
		return r.Ask(a)
	default:
		v = r.verdictLocked(w)
		r.mu.Unlock()
		return nil, v
	}
	if !known {
		r.mu.Unlock()
		return nil, r.askLater(&a)
	}
	w = &waiter{askKey: askKey{a.Run, a.Handle}, places: r.placesOfLocked(a.Handler, a.Run.Namespace),
		turnOrder: turnOrder{sinceMs: a.SinceMs}}
	r.asks.add(w)
	r.mu.Unlock()
	if limited {
		slot, v := r.cfg.Limiter.Enter(a, &entrant{r, w, a.Workflow})
		if v != run.Begins {
			return nil, r.entered(w, slot, v)
		}
		w.slot = slot
	}
	if handled && r.held(w, a.Workflow) {
		return nil, run.Queues
	}
	r.mu.Lock()
	if !handled && !r.performers[a.Handler].none() { // it was registered in the meantime, and may have limits
		r.mu.Unlock()
		r.Withdraw(a.Run, a.Handle)
		return r.Ask(a)
	}
	p := r.placeLocked(w, a.Workflow)
	if p == nil {
		v = r.verdictLocked(w)
	}
	r.mu.Unlock()
	if p != nil {
		return p, run.Begins
	}
	r.pulse()
	return nil, v
}

// held makes the attempt of a run that crashed the host wait for the run's trial. It reports whether it waits.
func (r *Registry) held(w *waiter, workflow string) bool {
	subject := r.cfg.Watch.Subject(uint32(w.run.Namespace), w.run.ID)
	if !subject.AwaitsTrial() {
		return false
	}
	subject.Ask(func() {
		r.mu.Lock()
		w.tried = true
		r.mu.Unlock()
		r.place(w, workflow)
	}, func() {
		r.Withdraw(w.run, w.handle)
		r.cfg.Runs.Admitted(w.run, run.Admitted{Handle: w.handle, Handler: w.places.name}) // to ask again when the host resumes
	})
	return true
}

// verdictLocked returns the verdict for the run of a waiting attempt.
func (r *Registry) verdictLocked(w *waiter) run.Verdict {
	switch {
	case r.performers[w.places.name].none():
		return run.Unhandled
	case w.lingers, w.soon, w.unread && !w.told:
		return run.Soon
	}
	return run.Queues
}

// entered keeps the slot that an attempt waits for, and returns its verdict. If the verdict is Soon, the attempt
// counts as activity until its run gets the next event.
func (r *Registry) entered(w *waiter, slot Slot, v run.Verdict) run.Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asks.find(w.askKey) != w { // it was admitted in the meantime, and its run gets that event
		return run.Soon
	}
	if !w.passed { // else it waits for a place
		w.slot = slot
		if v == run.Soon && !w.told {
			r.soonLocked(w, true)
		}
	}
	r.tidyLocked(w.places)
	return v
}

// soonLocked sets whether the run of an attempt expects to hear soon whether the attempt waits.
func (r *Registry) soonLocked(w *waiter, soon bool) {
	if w.soon == soon {
		return
	}
	if w.soon = soon; r.cfg.Activity == nil {
		return
	}
	if soon {
		r.cfg.Activity.Begin()
	} else {
		r.cfg.Activity.Done()
	}
}

// entrant is an attempt that waits for a slot.
type entrant struct {
	r        *Registry
	w        *waiter
	workflow string
}

// Wakes counts the attempt as activity until Admit or Queued is called.
func (e *entrant) Wakes() {
	e.r.mu.Lock()
	defer e.r.mu.Unlock()
	if e.r.asks.find(e.w.askKey) == e.w { // else it was withdrawn
		e.r.soonLocked(e.w, true)
	}
}

// Admit queues the attempt, with its slot, for a place. Without a slot, the run asks again once the attempt has a
// place, so that no more runs are loaded at a time than there are places.
func (e *entrant) Admit(s Slot) {
	r, w := e.r, e.w
	r.mu.Lock()
	if r.asks.find(w.askKey) != w { // it was withdrawn
		r.mu.Unlock()
		if s != nil {
			s.Return()
		}
		return
	}
	w.slot, w.passed = s, true
	r.mu.Unlock()
	if r.held(w, e.workflow) {
		r.cfg.Runs.Queued(w.run, w.handle)
	} else {
		r.place(w, e.workflow)
	}
	r.mu.Lock()
	r.soonLocked(w, false)
	r.mu.Unlock()
}

// Queued reports to the run that its attempt waits.
func (e *entrant) Queued() {
	r, w := e.r, e.w
	r.mu.Lock()
	w.told = true
	r.mu.Unlock()
	r.cfg.Runs.Queued(w.run, w.handle)
	r.mu.Lock()
	r.soonLocked(w, false)
	r.mu.Unlock()
}

// place gives an attempt a place, or queues it. If it was withdrawn, it does nothing.
func (r *Registry) place(w *waiter, workflow string) {
	r.mu.Lock()
	var ready []admitted
	if r.asks.find(w.askKey) == w {
		if p := r.placeLocked(w, workflow); p != nil {
			ready = []admitted{{w.askKey, p}}
		}
	}
	waits, key := w.queue != nil && !w.lingers, w.askKey
	r.mu.Unlock()
	r.tell(ready)
	if waits {
		r.cfg.Runs.Queued(key.run, key.handle)
	}
	r.pulse()
}

// placeLocked gives an attempt a place, or queues it and returns nil.
func (r *Registry) placeLocked(w *waiter, workflow string) *Place {
	rm := r.placesOfLocked(w.places.name, w.run.Namespace)
	w.places = rm
	switch {
	case r.draining || !rm.enter(w.run.Namespace):
		rm.wait(w, workflow)
	case r.enterAllLocked(w):
		r.asks.remove(w)
		return w.place(r)
	}
	if !rm.closed && !w.told { // else its run may have left memory
		r.lingerLocked(w)
	}
	return nil
}

// enterAllLocked gives an attempt that has a place of its own handler also one of the places of all handlers, or
// queues it. Attempts of remote handlers do not need the latter.
func (r *Registry) enterAllLocked(w *waiter) bool {
	if w.places.remote || r.all.enter(w.run.Namespace) {
		return true
	}
	w.own = true
	r.all.wait(w, "")
	return false
}

func (w *waiter) place(r *Registry) *Place {
	return &Place{r: r, places: w.places, ns: w.run.Namespace, since: w.sinceMs, all: !w.places.remote, slot: w.slot, tried: w.tried}
}

// Withdraw removes an attempt from the queues. It does nothing if the attempt does not wait.
func (r *Registry) Withdraw(of store.RunKey, handle int64) {
	r.mu.Lock()
	w := r.asks.find(askKey{of, handle})
	if w == nil {
		r.mu.Unlock()
		return
	}
	ready := r.withdrawLocked(w)
	r.mu.Unlock()
	if w.slot != nil {
		w.slot.Return()
	}
	r.tell(ready)
	r.pulse()
}

// WithdrawRun removes the attempts of a run from the queues.
func (r *Registry) WithdrawRun(of store.RunKey) {
	r.mu.Lock()
	list := r.asks.ofRun(of)
	r.mu.Unlock()
	for _, w := range list {
		r.Withdraw(w.run, w.handle)
	}
}

// WithdrawPartition removes the attempts of a partition's runs from the queues, since another host owns it.
func (r *Registry) WithdrawPartition(id store.PartitionID) {
	r.mu.Lock()
	list := r.asks.ofPartition(id)
	r.mu.Unlock()
	for some := true; some; {
		r.mu.Lock()
		of := r.asks.dropSome(id)
		for places := range of {
			r.tidyLocked(places)
		}
		some = len(of) > 0
		r.mu.Unlock()
	}
	for _, w := range list {
		r.Withdraw(w.run, w.handle)
	}
	r.pulse()
}

// Begins is called when the attempt begins, with an input that must not be changed. A nil Place does nothing.
func (p *Place) Begins(input []byte) {
	if p == nil {
		return
	}
	p.r.mu.Lock()
	slot := p.slot
	p.r.mu.Unlock()
	if slot != nil {
		slot.Begins(input)
	}
}

// Return returns the place. Only the first call has an effect. A nil Place does nothing.
func (p *Place) Return() {
	if p == nil {
		return
	}
	p.giveBack(true)
}

// Taken returns the place of an attempt that a worker has taken, and keeps its slot until Return. A nil Place does
// nothing.
func (p *Place) Taken() {
	if p != nil {
		p.giveBack(false)
	}
}

func (p *Place) giveBack(slot bool) {
	r := p.r
	r.mu.Lock()
	var leaves Slot
	if slot {
		leaves, p.slot = p.slot, nil
	}
	var ready []admitted
	if !p.over {
		if p.over = true; p.late {
			r.lateLocked(p, -1)
		}
		ready = r.returnLocked(p)
	}
	r.mu.Unlock()
	if leaves != nil {
		leaves.Return()
	}
	r.tell(ready)
	r.pulse()
}

// Over reports that the attempt is over, although its handler has not returned. After Return it has no effect. A nil
// Place does nothing.
func (p *Place) Over() {
	if p == nil {
		return
	}
	p.r.mu.Lock()
	if !p.over && !p.late {
		p.late = true
		p.r.lateLocked(p, 1)
	}
	p.r.mu.Unlock()
	p.r.pulse()
}

// pulse counts attempts that wait for a place whose attempt is over as activity. It is called after runs have been
// told of their places, so that the activity does not drop to zero in between.
func (r *Registry) pulse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.late {
		busy := p.late > 0 && p.waits > 0 && !r.draining
		switch {
		case r.cfg.Activity == nil || busy == p.busy:
		case busy:
			r.cfg.Activity.Begin()
		default:
			r.cfg.Activity.Done()
		}
		if p.busy = busy; p.late == 0 {
			delete(r.late, p)
		}
	}
}

// lateLocked adds n to the counts of places whose attempts are over: for the place's handler, and for all handlers.
func (r *Registry) lateLocked(p *Place, n int) {
	p.places.late += n
	r.late[&p.places.places] = true
	if p.all {
		r.all.late += n
		r.late[r.all] = true
	}
}

// tell reports to runs that their attempts have a place.
func (r *Registry) tell(ready []admitted) {
	for _, a := range ready {
		ev := run.Admitted{Handle: a.key.handle, Handler: a.place.places.name, Place: a.place}
		// The handler may have got limits since then, or its limits were not checked because it was not registered.
		if slot := a.place.slot; r.cfg.Limiter != nil && (slot == nil || !slot.Counts()) {
			limited, known := r.cfg.Limiter.Limited(a.key.run.Namespace, ev.Handler)
			ev.Again = limited || !known
		}
		if !a.place.tried { // the handler was not registered when the attempt asked
			ev.Again = ev.Again || r.cfg.Watch.Subject(uint32(a.key.run.Namespace), a.key.run.ID).AwaitsTrial()
		}
		r.cfg.Runs.Admitted(a.key.run, ev)
	}
}
