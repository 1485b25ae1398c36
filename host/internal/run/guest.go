package run

import (
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// End is how an activation ended. Exactly one of its fields says it.
type End struct {
	// Entry is the end of the run that the guest has brought about: completed, cancelled or failed.
	Entry *store.Entry
	// Mismatch says how a replay differed from the journal: the run is stuck, and its journal is untouched.
	Mismatch string
	// Continue is set when the workflow continues as new.
	Continue *Continue
	// Fault is what the host failed at: the activation is repeated after a while, and nothing is journaled of it.
	Fault error
	// Evicted says that the instance was lost otherwise: the activation is repeated if there is something to do.
	Evicted bool
}

// maxFaults is how many faults of the host in a row leave a run to a person.
const maxFaults = 3

// faultDelayMs is how long an activation waits after a first fault of the host; after the second one it is eight
// times as long. A machine that stood still, or a file that was locked, has passed by then.
const faultDelayMs = 1000

// current reports whether a lease is that of the run's guest. Another one is told to give its instance up.
func (r *Run) current(l *Lease) bool {
	r.back(l)
	if l == r.lease {
		return true
	}
	r.tell(l, OrderSuspend)
	return false
}

// back takes the run back from a guest, with what the guest has left to be done.
func (r *Run) back(l *Lease) {
	if !l.lent {
		return
	}
	l.lent = false
	r.fx.Tell, r.fx.Drop = append(r.fx.Tell, l.tell...), append(r.fx.Drop, l.drop...)
	l.tell, l.drop = nil, nil
	if n := r.journal.Len(); l.length < abi.SuggestContinueEntries && n >= abi.SuggestContinueEntries {
		r.fx.LongJournal = n
	}
}

// TakeBack takes the run back from a guest that yields, so that other events may be stepped before GuestYields lends it
// again.
func (r *Run) TakeBack(l *Lease) *Effects {
	r.fx = &Effects{}
	defer func() { r.fx = nil }()
	r.back(l)
	return r.fx
}

// guestReady lends the run to the guest.
func (r *Run) guestReady(now int64, e GuestReady) error {
	if !r.current(e.Lease) {
		return nil
	}
	var err error
	first := false
	if !r.held() && r.active {
		if _, begun := r.journal.StartedUnixMs(); !begun {
			first = true
			_, err = r.append(now, store.Entry{Kind: store.KindActivated})
		}
	}
	if err != nil || r.held() || !r.active || !first && !r.pending && !r.journal.Deliverable() {
		r.suspend()
		return err
	}
	r.pending, r.waiting = false, ""
	r.journal.Resume()
	r.guest = guestComputing
	r.tell(e.Lease, OrderGo)
	return nil
}

// guestYields lends the run again. What came meanwhile may have ended it.
func (r *Run) guestYields(e GuestYields) {
	switch {
	case !r.current(e.Lease):
	case r.ended() || r.status != 0:
		r.suspend()
	default:
		r.tell(e.Lease, OrderGo)
	}
}

// guestWaits decides what becomes of a guest that waits: it goes on if there is something for it, keeps its instance
// while attempts go on, and else gives it up.
func (r *Run) guestWaits(now int64, e GuestWaits) error {
	if !r.current(e.Lease) {
		return nil
	}
	if r.ended() || r.status != 0 {
		r.suspend()
		return nil
	}
	r.faults, r.retryMs, r.reason = 0, 0, ""
	r.journal.Suspend(e.Suspension)
	if err := r.fireDue(now); err != nil || r.ended() || r.journal.Paused() {
		r.suspend()
		return err
	}
	if r.journal.Deliverable() {
		r.goOn()
		return nil
	}
	if r.active {
		r.guest = guestParked // so that attempts know where it stands
		if err := r.startAttempts(now, e.CanFork); err != nil || r.held() {
			r.suspend()
			return err
		}
		if r.journal.Deliverable() { // an attempt of which nobody knows the outcome has failed its step
			r.goOn()
			return nil
		}
	}
	switch {
	case len(r.attempts) > 0 && r.active:
		r.tell(e.Lease, OrderPark)
	case r.hopeless():
		r.guest = guestComputing
		r.journal.Resume()
		r.tell(e.Lease, OrderDump)
	default:
		r.suspend()
	}
	return nil
}

// goOn lends the run to the guest that has waited.
func (r *Run) goOn() {
	r.journal.Resume()
	r.guest = guestComputing
	r.tell(r.lease, OrderGo)
}

// hopeless reports whether nothing can ever wake the run.
func (r *Run) hopeless() bool {
	_, wake := r.journal.Wake()
	if r.journal.CancelPolicy() == abi.CancelCooperative && r.journal.CancelUnixMs() == 0 {
		return false // it may wait for its cancel
	}
	s, _ := r.journal.Suspension()
	deaf := s.Poll && !s.Events // it waits for none of its handles
	return !wake && (r.journal.OpenHandles() == 0 || deaf)
}

// guestEnds takes the end of an activation into the journal.
func (r *Run) guestEnds(now int64, e GuestEnds) error {
	r.back(e.Lease)
	if e.Lease != r.lease {
		return nil
	}
	r.guest, r.lease = guestNone, nil
	if r.ended() || r.status != 0 {
		return nil
	}
	end := e.End
	switch {
	case end.Entry != nil:
		if _, err := r.append(now, *end.Entry); err != nil && !r.ended() {
			r.fault(now, err)
		}
	case end.Mismatch != "":
		r.stick(end.Mismatch)
	case end.Continue != nil:
		if err := r.continueAsNew(now, end.Continue); err != nil && !r.ended() {
			r.fault(now, err)
		}
	case end.Fault != nil:
		r.fault(now, end.Fault)
	default:
		r.pending = !r.waits()
	}
	return nil
}

// waits reports whether the journal knows where the guest waits.
func (r *Run) waits() bool {
	_, ok := r.journal.Suspension()
	return ok
}

// fault drops the activation, which is repeated after a while. What the guest appended stays, and the repetition
// meets it as a replay.
func (r *Run) fault(now int64, err error) {
	r.faults++
	r.fx.Fault = err
	if r.faults >= maxFaults {
		r.stick(fmt.Sprintf("the host failed %d times: %v", r.faults, err))
		return
	}
	r.pending = true
	r.retryMs = now + faultDelayMs<<(3*(r.faults-1))
	r.reason = fmt.Sprintf("the host failed %d times, it tries again: %v", r.faults, err)
}

// evict gives the instance of a parked guest up. Its attempts go on.
func (r *Run) evict(e Evict) {
	if e.Lease == r.lease && (r.guest == guestParked || r.guest == guestResuming) {
		r.suspend()
	}
}

// refused takes back that a guest was asked for.
func (r *Run) refused(e Refused) {
	if e.Lease != r.lease {
		return
	}
	switch r.guest {
	case guestForked: // the body has not begun
		for _, a := range r.Attempts() {
			if a.Fork == e.Lease {
				delete(r.attempts, a.Handle)
			}
		}
		r.guest, r.lease = guestNone, nil
	case guestAsked, guestResuming:
		r.guest, r.lease = guestNone, nil
	}
}

// Lease is what a guest has of its run, from Activate to its end. While the run is lent to it, from an order to go on
// until it waits, yields or ends, the guest may call the methods; nobody else may use the run then.
type Lease struct {
	r      *Run
	lent   bool
	length int        // of the journal, when the run was lent
	tell   []*Attempt // attempts that the workflow has cancelled since
	drop   []*Attempt // attempts that were given up since
	// State is the run's as it was when the guest was asked for, of which version and module are those to be activated.
	State store.RunState
	// Guest is for whoever runs the guest.
	Guest any
}

func (r *Run) newLease() *Lease {
	st := r.state
	st.Iteration, st.Version, st.Module = r.ident.iteration, r.ident.version, r.ident.module
	return &Lease{r: r, State: st}
}

// Info is what an activation has to know of its run. It does not change while the activation goes on.
type Info struct {
	Started   journal.Started
	StartedMs int64 // started_at
	Input     []byte
	Rested    store.Seq // entries of the journal when the guest last came to a wait
}

// Info returns what the activation has to know.
func (l *Lease) Info() Info {
	j := l.r.journal
	ms, _ := j.StartedUnixMs()
	return Info{Started: j.Started(), StartedMs: ms, Input: j.Entries()[0].Input, Rested: j.Rested()}
}

// Lease returns the lease of the run's guest, nil if there is none.
func (r *Run) Lease() *Lease { return r.lease }

// Computes reports whether a guest computes, or is to as soon as there is a place.
func (r *Run) Computes() bool {
	return r.guest == guestAsked || r.guest == guestComputing || r.guest == guestResuming
}

// Fresh reports whether nothing of the run is durable, or on its way.
func (r *Run) Fresh() bool { return r.create }

// Run returns the run that is lent.
func (l *Lease) Run() *Run { return l.r }

// Entries returns the run's journal so far.
func (l *Lease) Entries() []store.Entry { return l.r.journal.Entries() }

// CallRoom returns an *abi.Error of Limit if the guest may not append another call.
func (l *Lease) CallRoom() error { return l.r.journal.CallRoom() }

// CheckAttribute returns an *abi.Error of Limit if the run may not have another attribute of that key.
func (l *Lease) CheckAttribute(key string) error { return l.r.journal.CheckAttribute(key) }

// errHeld says that nothing may be appended because the run has ended.
var errHeld = errors.New("the run has ended")

// Append appends a call of the guest. Of a withdraw it decides whether the step's attempt has begun. An error ends the
// activation.
func (l *Lease) Append(now int64, e store.Entry) (store.Entry, error) {
	r := l.r
	if r.ended() || r.status != 0 {
		return e, errHeld
	}
	if e.Kind == store.KindWithdraw && e.Code == withdrawDone && r.begun(e.Handle) {
		e.Code = withdrawRunning
	}
	e, err := r.journal.Append(e, now)
	r.afterAppend()
	return e, err
}

// Log stores a line of workflow code, the n-th of this iteration, unless it was stored before. replays reports that the
// guest repeats what its journal holds.
func (l *Lease) Log(n uint64, replays bool, line store.LogLine) {
	r := l.r
	if r.logLines == recountLogs {
		if replays {
			return
		}
		r.logLines = n
	}
	if n < r.logLines {
		return
	}
	r.logLines = n + 1
	r.addLog(line)
}

// Logged reports whether the n-th line was stored before.
func (l *Lease) Logged(n uint64, replays bool) bool {
	if l.r.logLines == recountLogs {
		return replays
	}
	return n < l.r.logLines
}

func (r *Run) addLog(l store.LogLine) {
	l.Index = r.records
	r.records++
	r.logs = append(r.logs, l)
}

// attemptLogs stores a line of a body or step function.
func (r *Run) attemptLogs(e AttemptLogs) {
	if r.attempts[e.Attempt.Handle] == e.Attempt && !r.ended() {
		r.addLog(e.Line)
	}
}
