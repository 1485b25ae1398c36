package run

import (
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// transition is one step of a run: its effects, and its instant, which is read once so that the whole step sees the same
// time.
type transition struct {
	*Run
	now    int64
	fx     Effects
	orders [2]Told // enough for most steps
}

// effects returns the effects of the step, with the notices for attempts.
func (t *transition) effects() *Effects {
	t.untold(&t.fx)
	return &t.fx
}

// append appends an entry that does not come from the guest.
func (t *transition) append(e store.Entry) error {
	before := t.rec.Journal.Len()
	_, err := t.rec.Journal.Append(e, t.now)
	if before < abi.SuggestContinueEntries && t.rec.Journal.Len() >= abi.SuggestContinueEntries {
		t.fx.LongJournal = t.rec.Journal.Len()
	}
	t.finish()
	return err
}

// fireDue appends the timers that are due. The deadline of the run may end it.
func (t *transition) fireDue() error {
	err := t.rec.Journal.FireDue(t.now)
	if t.rec.Ended() {
		t.rec.Free() // its deadline ended it, although it was stuck
	}
	t.finish()
	return err
}

// late reports whether the run's deadline has passed. The deadline also applies to a run that is paused or stuck.
func (t *transition) late() bool {
	at, ok := t.rec.Journal.Deadline()
	return ok && at <= t.now
}

// stick marks the run stuck.
func (t *transition) stick(reason string) {
	t.rec.Stick(reason)
	t.fx.Stuck = reason
}

// tell gives a guest an order.
func (t *transition) tell(l *Lease, o Order) {
	l.lent, l.length = o == OrderGo || o == OrderDump, t.rec.Journal.Len()
	t.fx.Orders = append(t.fx.Orders, Told{l, o})
}

// current reports whether a lease belongs to the run's guest. It takes the run back, and tells any other guest to
// free its instance.
func (t *transition) current(l *Lease) bool {
	t.back(l)
	if l == t.lease {
		return true
	}
	t.tell(l, OrderSuspend)
	return false
}

// back takes the run back from a guest.
func (t *transition) back(l *Lease) {
	if !l.lent {
		return
	}
	l.lent = false
	if n := t.rec.Journal.Len(); l.length < abi.SuggestContinueEntries && n >= abi.SuggestContinueEntries {
		t.fx.LongJournal = n
	}
}

// goOn lends the run to its guest. If later is set, it frees the instance instead, for a later guest to continue.
func (t *transition) goOn(later bool) {
	if later {
		t.freeze()
		return
	}
	t.rec.Journal.Resume()
	t.stands = guestComputing
	t.tell(t.lease, OrderGo)
}

// suspend frees the instance of the guest.
func (t *transition) suspend() {
	t.tell(t.lease, OrderSuspend)
	t.dropGuest()
}

// freeze frees the instance of a guest that has no work until the next event, and saves it for a resume without a
// replay.
func (t *transition) freeze() {
	if t.rec.Blocked() {
		t.suspend()
		return
	}
	l := t.lease
	t.dropGuest()
	if at, ok := t.NextWake(t.now); ok {
		l.WakesMs = at
	}
	l.Queues = len(t.verdicts) > 0 && len(t.going) == 0 && !t.rec.Journal.Deliverable()
	t.tell(l, OrderFreeze)
}

// fault ends the activation and schedules its repetition after a delay. The entries that the guest appended stay, and
// the repetition replays them.
func (t *transition) fault(err error) {
	t.fx.Fault = err
	if !t.faults.Add(t.now) {
		t.stick(fmt.Sprintf("the host failed %d times: %v", t.faults.Count, err))
		return
	}
	t.pending = true
	t.rec.Reason = fmt.Sprintf("the host failed %d times, it tries again: %v", t.faults.Count, err)
}
