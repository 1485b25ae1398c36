package run

import (
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// turn is one step of a run: the instant, read once so that all of it sees the same one, and what has to be done about it.
type turn struct {
	*Run
	now    int64
	fx     Effects
	orders [2]Told // room for those of most steps
}

// effects returns what has to be done, with what the attempts have to be told.
func (t *turn) effects() *Effects {
	t.fx.Tell, t.fx.Drop = t.untold()
	return &t.fx
}

// append appends an entry that does not come from the guest.
func (t *turn) append(e store.Entry) error {
	before := t.rec.Journal.Len()
	_, err := t.rec.Journal.Append(e, t.now)
	if before < abi.SuggestContinueEntries && t.rec.Journal.Len() >= abi.SuggestContinueEntries {
		t.fx.LongJournal = t.rec.Journal.Len()
	}
	t.settle()
	return err
}

// fireDue appends the timers that are due. The deadline of the run may end it.
func (t *turn) fireDue() error {
	err := t.rec.Journal.FireDue(t.now)
	if t.rec.Ended() {
		t.rec.Free() // by its deadline, though it was left to a person
	}
	t.settle()
	return err
}

// late reports whether the run's deadline has passed: it counts for a run that is paused, or left to a person, too.
func (t *turn) late() bool {
	at, ok := t.rec.Journal.Deadline()
	return ok && at <= t.now
}

// stick leaves the run to a person.
func (t *turn) stick(reason string) {
	t.rec.Stick(reason)
	t.fx.Stuck = reason
}

// tell gives a guest an order.
func (t *turn) tell(l *Lease, o Order) {
	l.lent, l.length = o == OrderGo || o == OrderDump, t.rec.Journal.Len()
	t.fx.Orders = append(t.fx.Orders, Told{l, o})
}

// current reports whether a lease is that of the run's guest. Another one is told to give its instance up.
func (t *turn) current(l *Lease) bool {
	t.back(l)
	if l == t.lease {
		return true
	}
	t.tell(l, OrderSuspend)
	return false
}

// back takes the run back from a guest.
func (t *turn) back(l *Lease) {
	if !l.lent {
		return
	}
	l.lent = false
	if n := t.rec.Journal.Len(); l.length < abi.SuggestContinueEntries && n >= abi.SuggestContinueEntries {
		t.fx.LongJournal = n
	}
}

// goOn lends the run to its guest, or to another one later.
func (t *turn) goOn(later bool) {
	if later {
		t.freeze()
		return
	}
	t.rec.Journal.Resume()
	t.stands = guestComputing
	t.tell(t.lease, OrderGo)
}

// suspend gives the instance of the guest up.
func (t *turn) suspend() {
	t.tell(t.lease, OrderSuspend)
	t.leave()
}

// freeze gives the instance of a guest up that has nothing to do until something happens.
func (t *turn) freeze() {
	if t.rec.Held() {
		t.suspend()
		return
	}
	l := t.lease
	t.leave()
	if at, ok := t.NextWake(t.now); ok {
		l.WakesMs = at
	}
	t.tell(l, OrderFreeze)
}

// fault drops the activation, which is repeated after a while. What the guest appended stays, and the repetition
// meets it as a replay.
func (t *turn) fault(err error) {
	t.fx.Fault = err
	if !t.faults.Add(t.now) {
		t.stick(fmt.Sprintf("the host failed %d times: %v", t.faults.Count, err))
		return
	}
	t.pending = true
	t.rec.Reason = fmt.Sprintf("the host failed %d times, it tries again: %v", t.faults.Count, err)
}
