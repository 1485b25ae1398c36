package shard

import (
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Wants reports whether the run has a commit that should not wait for further changes.
func (a *actor) Wants() bool { return a.prepared != nil || a.hasChanged() }

func (a *actor) hasChanged() bool { return a.urgent || a.touched && a.Run.Wants() }

// Flying reports whether a commit of the run is in flight.
func (a *actor) Flying() bool { return a.flying }

// Fly puts the next commit in flight and returns it, nil if there is none. No other commit may be in flight.
func (a *actor) Fly(now int64) *store.RunCommit {
	if a.prepared == nil && !a.Run.Lent() && a.hasChanged() {
		a.prepare(now)
	}
	if a.prepared == nil {
		return nil
	}
	a.flying = true
	a.flyDone, a.prepDone = a.prepDone, nil
	return a.prepared
}

// Take removes and returns the commit that Fly put in flight. Afterwards, another commit may be prepared.
func (a *actor) Take() *store.RunCommit {
	c := a.prepared
	a.prepared = nil
	return c
}

// Stick prepares a commit that makes an unreadable run stuck.
func (a *actor) Stick(c *store.RunCommit) { a.prepared = c }

// prepare prepares the commit of a run that is not lent. If the run has not changed, the waiting effects join the commit in
// flight, or happen now if there is none.
func (a *actor) prepare(now int64) {
	continued := a.Run.Continued()
	c := a.Run.Prepare(now)
	list := a.after
	a.after, a.urgent, a.touched = nil, false, false
	switch {
	case c != nil:
		a.prepared, a.prepDone = c, list
		a.owner.Prepared()
	case a.flying:
		a.flyDone = append(a.flyDone, list...)
	default:
		st := a.Run.State()
		a.finish(now, list, &st)
	}
	if continued { // start the next iteration
		a.Apply(now, Envelope{Event: run.Due{}})
	}
}

// Durable must be called when the commit in flight is durable, with the state that it wrote. It performs the effects that waited.
// If the run could not be read, the commit made it stuck; if mail has arrived since, Durable returns true, and the run must be
// read again, which answers the mail.
func (a *actor) Durable(now int64, state *store.RunState) (readAgain bool) {
	list := a.flyDone
	a.flying, a.flyDone = false, nil
	if a.Run == nil {
		a.owner.Stuck(state)
		return len(a.mail) > 0
	}
	a.finish(now, list, state)
	return false
}

// finish performs effects that waited for a durable commit. state is the run's state in that commit. Another commit may have been
// prepared since, and the run may have been replaced.
func (a *actor) finish(now int64, list []afterCommit, state *store.RunState) {
	for _, d := range list {
		if d.free != nil {
			d.free()
		}
		if d.stuck {
			if st := a.Run.State(); st.Status == store.Stuck { // otherwise it was retried meanwhile
				a.owner.Stuck(&st)
			}
		}
		if d.reply != nil {
			d.answerWith(state, a.Running())
		}
		a.start(d.start)
		if d.again == nil {
			continue
		}
		if _, start := d.again.Event.(run.Start); start && !a.Run.Lent() && a.Run.Over() { // otherwise another start came first
			a.Run = a.Run.Successor()
			a.owner.Replaced()
		}
		a.Deliver(now, *d.again)
	}
}

// start starts attempts whose cause is durable.
func (a *actor) start(attempts []*run.Attempt) {
	if len(attempts) > 0 && a.Run.Lent() { // the guest may cancel some, so wait until it yields
		a.mail = append(a.mail, Envelope{Event: run.Launch{Attempts: attempts}})
		return
	}
	for _, attempt := range attempts {
		if a.Run.Has(attempt) { // otherwise the run dropped it meanwhile
			a.port.Start(attempt)
		}
	}
}

// HasPrepared reports whether a commit is prepared and not in flight.
func (a *actor) HasPrepared() bool { return a.prepared != nil && !a.flying }
