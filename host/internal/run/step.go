package run

import (
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
)

// Step lets an event happen to the run at an instant, and returns what has to be done about it, until the next step.
func (r *Run) Step(now int64, ev Event) *Effects {
	t := r.t
	*t = turn{Run: r, now: r.own.Of(&r.rec, now), fx: Effects{Orders: t.orders[:0]}}
	r.faults.Look(t.now)
	t.fx.Err = t.step(ev)
	if errors.Is(t.fx.Err, journal.ErrEnded) {
		t.fx.Err = fmt.Errorf("run %q: %w: %v", r.rec.Key.ID, ErrTerminal, r.rec.Journal.Ended())
	}
	if e, ok := ev.(Refused); !ok || !e.Later {
		t.look()
	}
	return t.effects()
}

// Rest lets go of what the newest step has brought: a run that is kept while it sleeps would keep its guest's activation.
func (r *Run) Rest() { *r.t = turn{} }

// TakeBack takes the run back from a guest that yields, for other events. It returns nil if that has no effect.
func (r *Run) TakeBack(l *Lease) *Effects {
	if l.lent && r.quiet() && r.rec.Journal.Len() < abi.SuggestContinueEntries {
		l.lent = false
		return nil
	}
	t := r.t
	*t = turn{Run: r}
	t.back(l)
	return t.effects()
}

// step lets an event happen, after what was due before.
func (t *turn) step(ev Event) error {
	if t.rec.Exists && (t.stands == guestNone || t.stands == guestParked) && !t.rec.Closed() && t.rec.Journal.PollMoves(t.now) {
		t.comeAnew()
	}
	if t.rec.Exists && t.stands != guestComputing && (!t.rec.Held() || t.late()) {
		if err := t.fireDue(); err != nil { // whatever happens, what was due before comes first
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
	return ev.happen(t)
}

// missing says what an event means for a run that is not there. A guest that was asked for before it was deleted waits.
func (t *turn) missing(ev Event) error {
	switch e := ev.(type) { // a guest and its attempts belong to a run
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
	case Due, GuestEnds, Evict, Refused, Unstorable, AttemptEnds, AttemptLogs, NotForked, Launch:
	default:
		return t.rec.NotFound()
	}
	return nil
}

// look decides what there is to do for the run as it is after an event: tell the guest, ask for one, start attempts.
func (t *turn) look() {
	if !t.rec.Exists || t.stands == guestComputing {
		return
	}
	if !t.rec.Held() {
		t.rec.AskSlot(t.now)
		if t.offer() || !t.active {
			return
		}
		if !t.pending && t.stands != guestResuming { // else the guest has not come to where it waits for them
			if err := t.startAttempts(false); err != nil {
				t.fx.Unrecorded = err
			}
		}
	}
	// A run may be held by what was begun just now. A guest that has no place yet is told when it has one, and a body that
	// is executed goes on, unless the run has ended.
	idle := t.rec.Held() || !t.offer() && len(t.going) == 0 // they ended in delays
	if idle && t.stands == guestParked {
		t.freeze()
	}
}

// offer lets the guest go on, or asks for one, if there is something for it. It reports whether that is so.
func (t *turn) offer() bool {
	if t.stands == guestForked && t.rec.Journal.Deliverable() { // the instance is left to the body
		t.leave()
	}
	switch {
	case t.stands == guestParked && t.rec.Journal.Deliverable() && t.active:
		t.stands = guestResuming
		t.tell(t.lease, OrderResume)
		return true
	case t.stands == guestNone && t.Ready(t.now):
		if t.active && !t.Continued() { // the iteration before has its end first
			t.lease = newLease(t.Run)
			t.stands, t.fx.Activate = guestAsked, t.lease
		}
		return true
	}
	return false
}
