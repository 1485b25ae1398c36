package run

import (
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
)

// Apply applies an event to the run at an instant. The returned effects are valid until the next call.
func (r *Run) Apply(now int64, ev Event) *Effects {
	t := r.t
	*t = transition{Run: r, now: r.own.Of(&r.rec, now), fx: Effects{Orders: t.orders[:0]}}
	r.faults.ClockSet(t.now)
	t.fx.Err = t.apply(ev)
	if errors.Is(t.fx.Err, journal.ErrEnded) {
		t.fx.Err = fmt.Errorf("run %q: %w: %v", r.rec.Key.ID, ErrTerminal, r.rec.Journal.Ended())
	}
	if e, ok := ev.(Refused); !ok || !e.Later {
		t.schedule()
	}
	return t.effects()
}

// Rest releases what the newest event holds: otherwise a sleeping run would keep its guest's activation in memory.
func (r *Run) Rest() { *r.t = transition{} }

// TakeBack takes the run back from a guest that yields, so that other events can be applied. It returns nil if there
// are no effects.
func (r *Run) TakeBack(l *Lease) *Effects {
	if l.lent && r.quiet() && r.rec.Journal.Len() < abi.SuggestContinueEntries {
		l.lent = false
		return nil
	}
	t := r.t
	*t = transition{Run: r}
	t.back(l)
	return t.effects()
}

// apply applies an event, after what was due before it.
func (t *transition) apply(ev Event) error {
	if t.rec.Exists && (t.stands == guestNone || t.stands == guestParked) && !t.rec.Closed() && t.rec.Journal.PollMoves(t.now) {
		t.comeAnew()
	}
	if t.rec.Exists && t.stands != guestComputing && (!t.rec.Blocked() || t.late()) {
		if err := t.fireDue(); err != nil { // what was due before the event comes first
			if e, ok := ev.(Admitted); ok {
				e.refuse(t)
			}
			return err
		}
	}
	switch ev.(type) {
	case Start, StartChild:
	default:
		if !t.rec.Exists {
			return t.missing(ev)
		}
	}
	return ev.apply(t)
}

// missing handles an event of a run that does not exist. A guest that was requested before the deletion waits for an
// order.
func (t *transition) missing(ev Event) error {
	switch e := ev.(type) { // the events of a guest or its attempts are no error here
	case Delete:
		return t.rec.Forget(e.If)
	case GuestReady:
		t.current(e.Lease)
	case GuestYields:
		t.current(e.Lease)
	case GuestWaits:
		t.current(e.Lease)
	case BodyEnds:
		t.current(e.Lease)
	case Admitted:
		e.refuse(t)
	case Due, GuestEnds, Evict, Refused, Unstorable, AttemptEnds, AttemptLogs, NotForked, Launch, Queued:
	default:
		return t.rec.NotFound()
	}
	return nil
}

// schedule decides what the run needs after an event: an order for the guest, a new guest, or attempts.
func (t *transition) schedule() {
	if !t.rec.Exists || t.stands == guestComputing {
		return
	}
	if !t.rec.Blocked() {
		t.rec.AskSlot(t.now)
		if t.resume() || !t.active {
			return
		}
		if !t.pending && t.stands != guestResuming { // otherwise the guest is not yet where it waits for them
			if err := t.startAttempts(false); err != nil {
				t.fx.Unrecorded = err
			}
		}
	}
	if t.rec.Blocked() { // startAttempts may have ended the run or made it stuck
		t.withdrawAll()
	}
	// A guest that waits for an instance gets its order when it has one. A body continues to execute unless the run has ended.
	idle := t.rec.Blocked() || !t.resume() && !t.busy() // all attempts have ended, or wait for a retry or a place
	if idle && t.stands == guestParked {
		t.freeze()
	}
}

// resume resumes the guest or requests one, if there is work for it. It reports whether there is.
func (t *transition) resume() bool {
	if t.stands == guestForked && t.rec.Journal.Deliverable() { // the instance is left to the body
		t.dropGuest()
	}
	switch {
	case t.stands == guestParked && t.rec.Journal.Deliverable() && t.active:
		t.stands = guestResuming
		t.tell(t.lease, OrderResume)
		return true
	case t.stands == guestNone && t.Ready(t.now):
		if t.active && !t.Continued() { // the end of the previous iteration is committed first
			t.lease = newLease(t.Run)
			t.stands, t.fx.Activate = guestAsked, t.lease
		}
		return true
	}
	return false
}
