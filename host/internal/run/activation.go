package run

import (
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// apply lends the run to the guest.
func (e GuestReady) apply(t *transition) error {
	if !t.current(e.Lease) {
		return nil
	}
	var err error
	first := false
	if !t.rec.Blocked() && t.active && !t.Begun() {
		first = true
		err = t.append(store.Entry{Kind: store.KindActivated})
	}
	if err != nil || t.rec.Blocked() || !t.active || !first && !t.pending && !t.rec.Journal.Deliverable() {
		t.suspend()
		return err
	}
	t.pending = false
	t.goOn(false)
	return nil
}

// apply lends the run to the guest again, unless the run ended or got stuck meanwhile.
func (e GuestYields) apply(t *transition) error {
	switch {
	case !t.current(e.Lease):
	case t.rec.Closed():
		t.suspend()
	default:
		t.tell(e.Lease, OrderGo)
	}
	return nil
}

// apply resumes a waiting guest if a delivery is ready for it. Otherwise the guest keeps its instance while attempts
// are in flight, or gives it up.
func (e GuestWaits) apply(t *transition) error {
	if !t.current(e.Lease) {
		return nil
	}
	if t.rec.Closed() {
		t.suspend()
		return nil
	}
	t.faults, t.needs, t.grows, t.rec.Reason = Faults{}, 0, false, ""
	t.rec.Journal.Suspend(e.Suspension)
	t.rec.Journal.PollCounts(e.FromMs, e.WasMs)
	if err := t.fireDue(); err != nil || t.rec.Ended() || t.rec.Journal.Paused() {
		t.suspend()
		return err
	}
	if t.rec.Journal.Deliverable() {
		t.goOn(e.Leaves)
		return nil
	}
	if t.active {
		t.stands = guestParked // attempts check this
		if err := t.startAttempts(e.CanFork); err != nil || t.rec.Blocked() {
			t.suspend()
			return err
		}
		if t.rec.Journal.Deliverable() { // the only attempt of an at-most-once step was lost, which failed the step
			t.goOn(e.Leaves)
			return nil
		}
	}
	switch {
	case t.busy() && t.active && !e.Leaves:
		t.tell(e.Lease, OrderPark)
	case len(t.verdicts) == 0 && t.rec.Hopeless():
		t.stands = guestComputing
		t.rec.Journal.Resume()
		t.tell(e.Lease, OrderDump)
	default:
		t.freeze()
	}
	return nil
}

// apply records the end of an activation.
func (e GuestEnds) apply(t *transition) error {
	t.back(e.Lease)
	if e.Lease != t.lease {
		return nil
	}
	t.dropGuest()
	if t.rec.Closed() {
		return nil
	}
	switch end := e.End; {
	case end.Entry != nil:
		if err := t.append(*end.Entry); err != nil && !t.rec.Ended() {
			t.fault(err)
		}
	case end.Mismatch != "":
		t.stick(end.Mismatch)
	case end.Continue != nil:
		if err := t.continues(end.Continue); err != nil && !t.rec.Ended() {
			t.fault(err)
		}
	case end.Fault != nil:
		t.fault(end.Fault)
	default:
		_, waits := t.rec.Journal.Suspension()
		t.pending, t.needs, t.grows = !waits, end.Needs, end.Grows
	}
	return nil
}

// continues ends the iteration and begins the next one, in one commit.
func (t *transition) continues(c *Continue) error {
	if err := t.append(store.Entry{Kind: store.KindContinued}); err != nil {
		return err
	}
	j, err := c.Journal(t.rec.Journal, t.now)
	if err != nil {
		return err
	}
	if n := len(t.rec.Journal.Keys()) - len(j.Started().Keys); n > 0 {
		text := fmt.Sprintf("continue_as_new: the oldest %d idempotency keys of signals are forgotten, since more than %d bytes of "+
			"them do not go over to the next iteration", n, journal.MaxKeyBytes)
		t.rec.Log.Add(store.LogLine{UnixMs: t.now, Level: abi.LogWarn, Text: text})
	}
	t.rec.Continue(c, j)
	t.pending = true
	return nil
}

// apply frees the instance of a parked guest. The guest's attempts stay in flight.
func (e Evict) apply(t *transition) error {
	if (e.Lease == nil || e.Lease == t.lease) && (t.stands == guestParked || t.stands == guestResuming) {
		t.freeze()
	}
	return nil
}

// apply withdraws the request for a guest.
func (e Refused) apply(t *transition) error {
	t.withdrawFork(e.Lease) // a body that has not begun, even if the run has another guest by now
	if e.Lease == t.lease && (t.stands == guestForked || t.stands == guestAsked || t.stands == guestResuming) {
		t.dropGuest()
	}
	return nil
}
