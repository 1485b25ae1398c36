package actor

import (
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Wants reports whether there is something to commit that nothing more is to be gathered for.
func (a *Actor) Wants() bool { return a.prepared != nil || a.hasChanged() }

func (a *Actor) hasChanged() bool { return a.urgent || a.touched && a.Run.Wants() }

// Flying reports whether a commit of the run is on its way.
func (a *Actor) Flying() bool { return a.flying }

// Fly sends the next commit on its way, nil if there is none. No other one is.
func (a *Actor) Fly(now int64) *store.RunCommit {
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

// Take returns the commit that Fly has sent on its way, once: another one may be prepared now.
func (a *Actor) Take() *store.RunCommit {
	c := a.prepared
	a.prepared = nil
	return c
}

// Stick prepares a commit that leaves a run to a person that cannot be read.
func (a *Actor) Stick(c *store.RunCommit) { a.prepared = c }

// prepare makes the commit of a run that is not lent. Where nothing has changed, what waits for it waits for the commit
// before, or is done.
func (a *Actor) prepare(now int64) {
	continued := a.Run.Continued()
	c := a.Run.Prepare(now)
	list := a.after
	a.after, a.urgent, a.touched = nil, false, false
	switch {
	case c != nil:
		a.prepared, a.prepDone = c, list
		a.home.Prepared()
	case a.flying:
		a.flyDone = append(a.flyDone, list...)
	default:
		st := a.Run.State()
		a.finish(now, list, &st)
	}
	if continued { // the next iteration may begin
		a.Step(now, Mail{Event: run.Due{}})
	}
}

// Durable takes that the commit on its way is durable, with the state that it has written. A run that could not be read is
// stuck by now; if others have come for it since, it is to be read again, which tells them so.
func (a *Actor) Durable(now int64, state *store.RunState) (readAgain bool) {
	list := a.flyDone
	a.flying, a.flyDone = false, nil
	if a.Run == nil {
		a.home.Stuck(state)
		return len(a.mail) > 0
	}
	a.finish(now, list, state)
	return false
}

// finish does what was kept until it is durable. st is the run's state as of the commit that made it so: another one may
// have been prepared since, and the run may have been replaced.
func (a *Actor) finish(now int64, list []done, state *store.RunState) {
	for _, d := range list {
		if d.free != nil {
			d.free()
		}
		if d.stuck {
			if st := a.Run.State(); st.Status == store.Stuck { // else it was retried meanwhile
				a.home.Stuck(&st)
			}
		}
		if d.reply != nil {
			d.answerWith(state, a.Running())
		}
		a.start(d.start)
		if d.again == nil {
			continue
		}
		if _, start := d.again.Event.(run.Start); start && !a.Run.Lent() && a.Run.Over() { // else another start was faster
			a.Run = a.Run.Successor()
			a.home.Replaced()
		}
		a.Deliver(now, *d.again)
	}
}

// start starts attempts whose cause is durable.
func (a *Actor) start(attempts []*run.Attempt) {
	if len(attempts) > 0 && a.Run.Lent() { // which of them go on is known when the guest yields
		a.mail = append(a.mail, Mail{Event: run.Launch{Attempts: attempts}})
		return
	}
	for _, attempt := range attempts {
		if a.Run.Has(attempt) { // else the run was ended meanwhile
			a.port.Start(attempt)
		}
	}
}

// HasPrepared reports whether a commit was made that is not on its way.
func (a *Actor) HasPrepared() bool { return a.prepared != nil && !a.flying }
