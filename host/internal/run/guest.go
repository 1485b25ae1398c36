package run

import (
	"errors"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// guestState is where the guest of a run stands.
type guestState uint8

const (
	guestNone      guestState = iota // there is none
	guestAsked                       // Activate was given; the instance is not there yet
	guestComputing                   // it has the run to itself, unless it yields
	guestParked                      // it waits in its instance while a commit or attempts go on
	guestResuming                    // it was parked, and is to go on when there is a place
	guestForked                      // its instance executes the body that it waits for
)

// guest is that of a run: where it stands, and what an activation has to wait for.
type guest struct {
	stands  guestState
	lease   *Lease // from Activate to its end
	pending bool   // it has to run though nothing is deliverable: it is new, or was interrupted
	faults  Faults
	needs   int64 // End.Needs
	grows   bool  // End.Grows
}

// Lease returns the lease of the run's guest, nil if there is none.
func (g *guest) Lease() *Lease { return g.lease }

// Lent reports whether a guest has the run to itself. No event but the guest's own may be stepped then.
func (g *guest) Lent() bool { return g.lease != nil && g.lease.lent }

// Computes reports whether a guest computes, or is to as soon as there is a place.
func (g *guest) Computes() bool {
	return g.stands == guestAsked || g.stands == guestComputing || g.stands == guestResuming
}

// forked reports whether the instance of a lease executes the body that the guest waits for.
func (g *guest) forked(l *Lease) bool { return g.stands == guestForked && l == g.lease }

// leave says that there is no guest any more.
func (g *guest) leave() { g.stands, g.lease = guestNone, nil }

// Faulty reports whether the newest activation ended by a fault of the host.
func (g *guest) Faulty() bool { return g.faults.Count > 0 }

// Lease is what a guest has of its run, from Activate to its end. While the run is lent to it, from an order to go on until it
// waits, yields or ends, the guest may call the methods. Others may then only ask the run what the guest does not change: its
// key, its state as of the newest commit, whether it has begun, and where its guest stands.
type Lease struct {
	r      *Run
	lent   bool
	length int // of the journal, when the run was lent
	// State is the run's as it was when the guest was asked for, of which version and module are those to be activated.
	State store.RunState
	// WakesMs is when the run wakes whose guest was told OrderFreeze, 0 if that depends on something else than time.
	WakesMs int64
	Needs   int64 // End.Needs of the guest before
	Grows   bool  // End.Grows of the guest before
	Guest   any   // for whoever runs the guest
}

func newLease(r *Run) *Lease {
	st := r.rec.State
	st.Iteration, st.Version, st.Module = r.rec.Iteration, r.rec.Version, r.rec.Module
	return &Lease{r: r, State: st, Needs: r.needs, Grows: r.grows}
}

// Info returns what the activation has to know.
func (l *Lease) Info() Info { return l.r.rec.InfoOf() }

// Run returns the run that is lent.
func (l *Lease) Run() *Run { return l.r }

// Entries returns the run's journal so far.
func (l *Lease) Entries() []store.Entry { return l.r.rec.Journal.Entries() }

// CallRoom returns an *abi.Error of Limit if the guest may not append another call.
func (l *Lease) CallRoom() error { return l.r.rec.Journal.CallRoom() }

// CheckAttribute returns an *abi.Error of Limit if the run may not have another attribute of that key.
func (l *Lease) CheckAttribute(key string) error { return l.r.rec.Journal.CheckAttribute(key) }

var errHeld = errors.New("the run has ended") // nothing may be appended

// Append appends a call of the guest. Of a withdraw it decides whether the step's attempt has begun. An error ends the
// activation.
func (l *Lease) Append(now int64, e store.Entry) (store.Entry, error) {
	r := l.r
	if r.rec.Closed() {
		return e, errHeld
	}
	if e.Kind == store.KindWithdraw && e.Code == journal.WithdrawDone && r.cancel(r.rec.Journal.Handle(e.Handle)) {
		e.Code = journal.WithdrawRunning
	}
	e, err := r.rec.Journal.Append(e, r.own.Of(&r.rec, now))
	r.settle()
	return e, err
}

// Now returns what the run's own clock shows where the host's shows now.
func (l *Lease) Now(now int64) int64 { return l.r.own.Of(&l.r.rec, now) }

// Log returns the log of the run, for lines of workflow code.
func (l *Lease) Log() *Log { return &l.r.rec.Log }
