package run

import (
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Errors of events, to be tested with errors.Is.
var (
	// ErrTerminal: the run has ended, and an end is final.
	ErrTerminal = errors.New("run has ended")
	// ErrIllegal: the event is not possible in the run's status.
	ErrIllegal = errors.New("not possible in the run's status")
	// ErrLive: a live run is not deleted.
	ErrLive = fmt.Errorf("run has not ended: %w", ErrIllegal)
	// ErrStartedBefore: the child was started by this very command.
	ErrStartedBefore = errors.New("child was started before")
)

// Event is something that happens to a run.
type Event interface{ event() }

// Events from outside. Each is answered.
type (
	// Start starts the run, or says what a start means for the run that is there.
	Start struct{ New NewRun }
	// Signal gives the run a signal, which it keeps until its workflow takes it.
	Signal struct {
		Name string
		Data []byte
		Key  string // idempotency key; empty = none
	}
	// Cancel asks the run to end: a workflow that takes a cancel is told, once; another run ends as cancelled.
	Cancel struct{}
	// Terminate ends the run.
	Terminate struct{}
	// Pause stops the run where it waits next. Attempts that are going on finish.
	Pause struct{}
	// Unpause lets a paused run go on. What came due meanwhile comes first.
	Unpause struct{}
	// Wake ends sleeps before their time: those of the given name, or all if it is empty.
	Wake struct{ Name string }
	// Retry lets a failed or stuck run go on, under another version if one is given.
	Retry struct{ Version *store.Version }
	// Delete deletes an ended run.
	Delete struct{}
	// StartChild starts the run as a child. A run that the very command has started before is ErrStartedBefore.
	StartChild struct {
		New     NewRun
		Command store.Command
		Message Message
	}
	// Look calls a function with the run, which it does not change. Its error is the event's.
	Look struct{ Func func(*Run) error }
	// Command is what another run wants of this one, taken out of the inbox.
	Command struct {
		Command store.Command
		Message Message
	}
)

// Events from inside.
type (
	// Due says that time has passed, or that something else has changed for which the run may wait: a handler was
	// registered, the run was made active. It may come too early or for nothing.
	Due struct{}
	// GuestReady says that the guest of a lease has its instance and a place.
	GuestReady struct{ Lease *Lease }
	// GuestYields says that the guest gives the run back for a moment. Others were stepped before; the answer is an
	// order.
	GuestYields struct{ Lease *Lease }
	// GuestWaits says that the guest waits for something that the journal does not hold.
	GuestWaits struct {
		Lease      *Lease
		Suspension store.Suspension
		CanFork    bool // the instance can execute the body that the guest waits for
	}
	// GuestEnds says how an activation ended that was not told to end.
	GuestEnds struct {
		Lease *Lease
		End   End
	}
	// Evict says that the memory of a parked guest is wanted, or that it was kept long enough.
	Evict struct{ Lease *Lease }
	// Refused says that there will be no instance for an activation: the host stops, or, with Later, there are too many
	// that wait for one. Then the run does not ask again before it is stepped again.
	Refused struct {
		Lease *Lease
		Later bool
	}
	// AttemptEnds says how an attempt ended.
	AttemptEnds struct {
		Attempt *Attempt
		Outcome Outcome
	}
	// BodyEnds says how an attempt ended that was executed in the instance of the guest, which waits for an order.
	BodyEnds struct {
		Lease   *Lease
		Attempt *Attempt
		Outcome Outcome
	}
	// NotForked says that the instance of a guest cannot execute a body after all, and is given up.
	NotForked struct {
		Lease   *Lease
		Attempt *Attempt
	}
	// Launch starts those of the attempts that still go on: what led to them became durable while the run was lent.
	Launch struct{ Attempts []*Attempt }
	// AttemptLogs is a line that a body or step function has logged.
	AttemptLogs struct {
		Attempt *Attempt
		Line    store.LogLine
	}
)

func (Start) event()       {}
func (Signal) event()      {}
func (Cancel) event()      {}
func (Terminate) event()   {}
func (Pause) event()       {}
func (Unpause) event()     {}
func (Wake) event()        {}
func (Retry) event()       {}
func (Delete) event()      {}
func (Command) event()     {}
func (StartChild) event()  {}
func (Look) event()        {}
func (Due) event()         {}
func (GuestReady) event()  {}
func (GuestYields) event() {}
func (GuestWaits) event()  {}
func (GuestEnds) event()   {}
func (Evict) event()       {}
func (Refused) event()     {}
func (AttemptEnds) event() {}
func (BodyEnds) event()    {}
func (AttemptLogs) event() {}
func (NotForked) event()   {}
func (Launch) event()      {}

// Step lets an event happen to the run at an instant, and returns what has to be done about it. The instant is read
// once for the whole step, so that nothing in it is due at one place and not at another.
func (r *Run) Step(now int64, ev Event) *Effects {
	fx := &Effects{}
	r.fx = fx
	defer func() { r.fx = nil }()
	fx.Err = r.step(now, ev)
	if errors.Is(fx.Err, journal.ErrEnded) {
		fx.Err = fmt.Errorf("run %q: %w", r.key.ID, ErrTerminal)
	}
	if e, ok := ev.(Refused); !ok || !e.Later {
		r.look(now)
	}
	return fx
}

func (r *Run) step(now int64, ev Event) error {
	if r.exists && r.guest != guestComputing && !r.held() {
		if err := r.fireDue(now); err != nil { // whatever happens, what was due before comes first
			return err
		}
	}
	switch e := ev.(type) {
	case Start:
		return r.start(now, e.New)
	case StartChild:
		err := r.start(now, e.New)
		if errors.Is(err, store.ErrExists) && r.exists && StartedBy(r.journal.Started(), &e.Message) {
			return ErrStartedBefore
		}
		return err
	}
	if !r.exists {
		return r.missing(ev)
	}
	switch e := ev.(type) {
	case Due:
		return nil
	case Look:
		return e.Func(r)
	case Signal:
		return r.takeSignal(now, e)
	case Cancel:
		return r.cancel(now)
	case Terminate:
		return r.terminate(now)
	case Pause:
		return r.setPaused(now, store.KindPaused)
	case Unpause:
		return r.setPaused(now, store.KindUnpaused)
	case Wake:
		return r.wake(now, e.Name)
	case Retry:
		return r.retry(now, e.Version)
	case Delete:
		return r.delete(now)
	case Command:
		return r.take(now, &e.Command, &e.Message)
	}
	return r.inside(now, ev)
}

// inside steps the events of guests and attempts.
func (r *Run) inside(now int64, ev Event) error {
	switch e := ev.(type) {
	case GuestReady:
		return r.guestReady(now, e)
	case GuestYields:
		r.guestYields(e)
	case GuestWaits:
		return r.guestWaits(now, e)
	case GuestEnds:
		return r.guestEnds(now, e)
	case Evict:
		r.evict(e)
	case Refused:
		r.refused(e)
	case AttemptEnds:
		return r.attemptEnds(now, e.Attempt, e.Outcome)
	case BodyEnds:
		return r.bodyEnds(now, e)
	case AttemptLogs:
		r.attemptLogs(e)
	case NotForked:
		r.notForked(e)
	case Launch:
		for _, a := range e.Attempts {
			if r.Has(a) {
				r.fx.Start = append(r.fx.Start, a)
			}
		}
	}
	return nil
}

// missing says what an event means for a run that is not there. A guest may have been asked for before the run was deleted:
// it waits for an order.
func (r *Run) missing(ev Event) error {
	switch e := ev.(type) { // a guest and its attempts belong to a run
	case GuestReady:
		r.current(e.Lease)
	case GuestYields:
		r.current(e.Lease)
	case GuestWaits:
		r.current(e.Lease)
	case BodyEnds:
		r.current(e.Lease)
	case Due, GuestEnds, Evict, Refused, AttemptEnds, AttemptLogs, NotForked, Launch:
	default:
		return r.notFound()
	}
	return nil
}

func (r *Run) notFound() error {
	if r.tombstone != nil {
		return fmt.Errorf("run %q: %w: it was deleted", r.key.ID, store.ErrNotFound)
	}
	return fmt.Errorf("run %q: %w", r.key.ID, store.ErrNotFound)
}

// look decides what there is to do for the run as it is after an event: tell the guest, ask for one, start attempts.
func (r *Run) look(now int64) {
	if !r.exists || r.guest == guestComputing {
		return
	}
	if r.held() {
		r.release()
		return
	}
	if r.offer(now) || !r.active {
		return
	}
	if !r.pending && r.guest != guestResuming { // else the guest has not come to where it waits for them
		if err := r.startAttempts(now, false); err != nil {
			r.fx.Unrecorded = err
		}
		if r.held() {
			r.release()
			return
		}
	}
	if !r.offer(now) && r.guest == guestParked && len(r.attempts) == 0 { // they ended in delays
		r.suspend()
	}
}

// offer lets the guest go on, or asks for one, if there is something for it. It reports whether that is so.
func (r *Run) offer(now int64) bool {
	if r.guest == guestForked && r.journal.Deliverable() { // the instance is left to the body
		r.guest, r.lease = guestNone, nil
	}
	switch {
	case r.guest == guestParked && r.journal.Deliverable() && r.active:
		r.guest = guestResuming
		r.tell(r.lease, OrderResume)
		return true
	case r.guest == guestNone && r.ready(now):
		if r.active && r.old == nil { // the iteration before has its end first
			r.lease = r.newLease()
			r.guest, r.fx.Activate = guestAsked, r.lease
		}
		return true
	}
	return false
}

// ready reports whether the guest has something to do, and may: after a fault of the host it waits a while.
func (r *Run) ready(now int64) bool {
	return (r.pending || r.journal.Deliverable()) && r.retryMs <= now && r.startsAt() <= now
}

// release gives the instance of a run up that is held. A guest that has no place yet is told when it has one, and a
// body that is executed goes on, unless the run has ended.
func (r *Run) release() {
	if r.guest == guestParked {
		r.suspend()
	}
}

// suspend gives the instance of a parked guest up.
func (r *Run) suspend() {
	r.tell(r.lease, OrderSuspend)
	r.guest, r.lease = guestNone, nil
}

// tell gives a guest an order.
func (r *Run) tell(l *Lease, o Order) {
	l.lent, l.length = o == OrderGo || o == OrderDump, r.journal.Len()
	r.fx.Orders = append(r.fx.Orders, Told{l, o})
}
