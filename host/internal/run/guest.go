package run

import (
	"errors"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// guestState is the state of a run's guest.
type guestState uint8

const (
	guestNone      guestState = iota // there is no guest
	guestAsked                       // the run asked for it by Activate; there is no instance yet
	guestComputing                   // the run is lent to it, unless it yields
	guestParked                      // it waits in its instance while a commit or attempts are in flight
	guestResuming                    // it was parked, and continues when there is a place
	guestForked                      // its instance executes the body that it waits for
)

// guest is the state of a run's guest, and of the wait for its next activation.
type guest struct {
	stands  guestState
	lease   *Lease // from Activate to its end
	pending bool   // it must run although no delivery is ready: it is new, or was interrupted
	faults  Faults
	needs   int64 // End.Needs
	grows   bool  // End.Grows
}

// Lease returns the lease of the run's guest, or nil if there is none.
func (g *guest) Lease() *Lease { return g.lease }

// Lent reports whether the run is lent to a guest. Then only events of that guest may be applied.
func (g *guest) Lent() bool { return g.lease != nil && g.lease.lent }

// Computes reports whether a guest computes, or will as soon as there is a place.
func (g *guest) Computes() bool {
	return g.stands == guestAsked || g.stands == guestComputing || g.stands == guestResuming
}

// forked reports whether the instance of a lease executes the body that its guest waits for.
func (g *guest) forked(l *Lease) bool { return g.stands == guestForked && l == g.lease }

// dropGuest forgets the guest and its lease.
func (g *guest) dropGuest() { g.stands, g.lease = guestNone, nil }

// Faulty reports whether the newest activation ended by a fault of the host.
func (g *guest) Faulty() bool { return g.faults.Count > 0 }

// Lease is a guest's right to append to its run, from Activate until the activation ends. The run is lent to the
// guest from an order to continue until the guest waits, yields or ends. Only then may the guest call the lease's
// methods. Meanwhile other code may read only what the guest does not change: the run's key, its state as of the
// newest commit, whether it has begun, and the state of its guest.
type Lease struct {
	r      *Run
	lent   bool
	length int // of the journal when the run was lent
	// State is the run's state when the guest was requested, with the version and module to activate.
	State store.RunState
	// WakesMs is when a run wakes whose guest got OrderFreeze, or 0 if no time is known.
	WakesMs int64
	// Queues reports that the run waits for places of attempts when its guest gets OrderFreeze, and has none in flight.
	Queues bool
	Needs  int64 // End.Needs of the previous guest
	Grows  bool  // End.Grows of the previous guest
	Guest  any   // belongs to the code that runs the guest
}

func newLease(r *Run) *Lease {
	st := r.rec.State
	st.Iteration, st.Version, st.Module = r.rec.Iteration, r.rec.Version, r.rec.Module
	return &Lease{r: r, State: st, Needs: r.needs, Grows: r.grows}
}

// Info returns what the activation must know of its run.
func (l *Lease) Info() Info { return l.r.rec.InfoOf() }

// Run returns the run that is lent.
func (l *Lease) Run() *Run { return l.r }

// Entries returns the run's journal so far.
func (l *Lease) Entries() []store.Entry { return l.r.rec.Journal.Entries() }

// CallRoom returns an *abi.Error of Limit if the guest may not append another call.
func (l *Lease) CallRoom() error { return l.r.rec.Journal.CallRoom() }

// CheckAttribute returns an *abi.Error of Limit if the run may not have another attribute of that key.
func (l *Lease) CheckAttribute(key string) error { return l.r.rec.Journal.CheckAttribute(key) }

var errHeld = errors.New("the run has ended") // no entry may be appended

// Append appends a call of the guest. For a withdraw it determines whether the step's attempt has begun. An error
// ends the activation.
func (l *Lease) Append(now int64, e store.Entry) (store.Entry, error) {
	r := l.r
	if r.rec.Closed() {
		return e, errHeld
	}
	if e.Kind == store.KindWithdraw && e.Code == journal.WithdrawDone && r.cancels(r.rec.Journal.Handle(e.Handle)) {
		e.Code = journal.WithdrawRunning
	}
	e, err := r.rec.Journal.Append(e, r.own.Of(&r.rec, now))
	r.finish()
	return e, err
}

// cancels cancels a step on behalf of the workflow. It reports whether an attempt has begun: see attempts.cancel. One that began
// before the host stopped may have had its effect, although its next attempt has not begun.
func (r *Run) cancels(h *journal.Handle) bool {
	if r.cancel(h) {
		return true
	}
	if h == nil || h.Step == nil {
		return false
	}
	n := NextAttemptOf(h, r.rec.Restored)
	if n.Recovery {
		r.unknown = append(r.unknown, h.ID)
	}
	return n.Recovery || n.Lost
}

// Now returns the time of the run's own clock when the host's clock shows now.
func (l *Lease) Now(now int64) int64 { return l.r.own.Of(&l.r.rec, now) }

// Log returns the run's log, for lines of workflow code.
func (l *Lease) Log() *Log { return &l.r.rec.Log }
