package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/shard"
	"github.com/wfhost/wfhost/store"
)

// waiting is what an actor waits for.
type waiting uint8

const (
	waitPlace waiting = iota // a place among the guests
	waitTurn                 // its turn: it computes
	waitOrder                // an order
	waitPark                 // an order or a body, with its instance kept
	waitBody                 // the end of a body
)

// actor imitates guest.Activation, with a scripted program in place of an instance. It is a coroutine: it yields
// wherever another event may happen.
type actor struct {
	w      *world
	x      *writer
	lease  *run.Lease
	prog   *version
	next   func() (waiting, bool)
	stop   func()
	yield  func(waiting) bool
	state  waiting
	until  int64 // of waitPark and waitBody, of mono
	dead   bool
	killed bool

	orders []told
	yields bool // it was asked to yield
	halted error
	evict  bool // its memory is wanted
	m      *replay.Machine
	g      *env
}

// told is an order, or a body to be executed.
type told struct {
	order run.Order
	fork  *run.Attempt
}

var (
	errSuspended = errors.New("suspended")
	errKilled    = errors.New("the host has crashed")
	errForked    = errors.New("forked")
	errDraining  = errors.New("the host drains")
	errDeadlock  = errors.New("deadlock")
	errTrap      = errors.New("trap")
)

// Activate makes a guest.
func (x *writer) Activate(l *run.Lease, _ shard.Class) {
	x.calls++
	a := &actor{w: x.w, x: x, lease: l, prog: x.w.byMod[l.State.Module]}
	l.Guest = a
	a.next, a.stop = iter.Pull(func(yield func(waiting) bool) {
		a.yield = yield
		a.run()
	})
	x.actors = append(x.actors, a)
	a.state = waitPlace
}

// Order tells a guest what to do.
func (x *writer) Order(l *run.Lease, o run.Order) {
	x.calls++
	guestOf(l).orders = append(guestOf(l).orders, told{order: o})
}

// Yield asks a guest to yield.
func (x *writer) Yield(l *run.Lease) { guestOf(l).yields = true }

// Halt ends a guest.
func (x *writer) Halt(l *run.Lease, cause error) {
	x.calls++
	guestOf(l).halt(cause)
}

func guestOf(l *run.Lease) *actor { return l.Guest.(*actor) }

func (a *actor) halt(cause error) {
	if a.halted == nil {
		a.halted = cause
	}
}

func (a *actor) name() string { return "the guest of " + a.lease.State.Run.ID }

// kill ends the coroutine without a word.
func (a *actor) kill() {
	a.killed = true
	a.stop()
	a.dead = true
}

func (a *actor) runnable() bool {
	if a.x.h.stands() {
		return false
	}
	if a.dead {
		return false
	}
	switch a.state {
	case waitOrder:
		return len(a.orders) > 0 || a.halted != nil
	case waitPark:
		return len(a.orders) > 0 || a.halted != nil || a.evict || a.until <= a.w.mono
	case waitBody:
		return a.halted != nil || a.until <= a.w.mono
	}
	return true
}

// deadline returns the instant at which the actor continues by itself.
func (a *actor) deadline() (int64, bool) {
	return a.until, !a.dead && (a.state == waitPark && a.until < forever || a.state == waitBody)
}

const forever = int64(1) << 60

func (a *actor) resume() {
	a.w.note("%s goes on, from %d", a.name(), a.state)
	state, ok := a.next()
	a.state = state
	if !ok {
		a.dead = true
	}
}

// block yields until the actor may continue.
func (a *actor) block(s waiting) error {
	if a.killed || !a.yield(s) {
		a.killed = true
		return errKilled
	}
	return nil
}

// post takes an event to the writer.
func (a *actor) post(f func(now int64)) {
	if !a.killed {
		a.x.post(f)
	}
}

func (a *actor) guest(ev run.Event) {
	a.post(func(now int64) { a.x.shard.Guest(now, a.lease, ev) })
}

func (a *actor) inside(ev run.Event) {
	key := a.lease.State.Run
	a.post(func(now int64) { a.x.shard.Inside(now, key, ev, nil) })
}

// run is the whole activation.
func (a *actor) run() {
	if a.halted != nil || !a.x.h.active {
		a.inside(run.Refused{Lease: a.lease})
		return
	}
	err := a.perform()
	a.w.note("%s ends: %v", a.name(), err)
	switch {
	case a.killed:
	case errors.Is(err, errDraining):
		a.inside(run.Refused{Lease: a.lease})
	case errors.Is(err, errSuspended) || a.halted != nil && errors.Is(err, a.halted):
		if a.halted != nil {
			a.guest(run.GuestEnds{Lease: a.lease, End: run.End{Evicted: true}})
		}
	default:
		end := a.end(err)
		if end.Mismatch != "" && !a.w.forced(a.lease.Info().Started, a.lease.Entries()) {
			a.w.broken("a replay does what its journal says", "%s: %s", a.lease.State.Run.ID, end.Mismatch)
		}
		a.guest(run.GuestEnds{Lease: a.lease, End: end})
	}
}

func (a *actor) perform() error {
	w := a.w
	if !w.calm && w.faults > 0 && w.odds(1, 50) {
		w.faults--
		return errIO // the module cannot be read
	}
	if err := a.ask(run.GuestReady{Lease: a.lease}); err != nil {
		return err
	}
	info := a.lease.Info()
	a.m = replay.New(replay.Config{Mode: replay.Live, Started: info.Started, Input: info.Input, StartedUnixMs: info.StartedMs,
		NewToken: func() string { return "t" + fmt.Sprint(w.rng.Uint64()) + "." + a.lease.State.Run.ID }, Tail: tail{a},
		BodiesEvent: true, Rested: info.Rested, HandlerError: func(string) error { return nil }})
	a.g = &env{w: w, m: a.m, prog: a.prog, enter: a.enters, wait: a.waits, lease: a.lease,
		it: info.Started.Iteration}
	code, err := a.g.run()
	if a.halted != nil {
		return a.halted
	}
	if err != nil {
		return err
	}
	return a.finish(code)
}

// ask passes an event to the writer and waits until the run is lent.
func (a *actor) ask(ev run.Event) error {
	a.guest(ev)
	if err := a.block(waitOrder); err != nil {
		return err
	}
	if len(a.orders) == 0 || a.halted != nil && a.w.odds(1, 2) {
		return a.halted
	}
	if t := a.pop(); t.order == run.OrderGo && t.fork == nil {
		return nil
	}
	return errSuspended
}

func (a *actor) pop() told {
	t := a.orders[0]
	a.orders = a.orders[1:]
	return t
}

// enters is called at each call of the guest.
func (a *actor) enters() error {
	if a.w.odds(1, 3) {
		if err := a.block(waitTurn); err != nil {
			return err
		}
	}
	if a.halted != nil {
		return a.halted
	}
	if a.yields {
		a.yields = false
		return a.ask(run.GuestYields{Lease: a.lease})
	}
	return nil
}

// waits is called when the guest waits for an event that has not happened.
func (a *actor) waits() error {
	if a.halted != nil {
		return a.halted
	}
	a.yields = false
	from, was := a.m.WaitsFrom()
	a.guest(run.GuestWaits{Lease: a.lease, Suspension: a.m.Suspension(), FromMs: from, WasMs: was, CanFork: a.w.p.fork})
	if err := a.block(waitOrder); err != nil {
		return err
	}
	if len(a.orders) == 0 {
		return a.halted
	}
	switch a.pop().order {
	case run.OrderGo:
		return nil
	case run.OrderDump:
		if a.m.Dump() {
			return nil
		}
		return errDeadlock
	case run.OrderPark:
		return a.park()
	case run.OrderResume, run.OrderSuspend:
	}
	return errSuspended
}

// park keeps the instance while attempts are in progress.
func (a *actor) park() error {
	a.evict, a.until = !a.x.h.active, a.w.mono+a.w.p.linger
	for {
		if err := a.block(waitPark); err != nil {
			return err
		}
		switch {
		case len(a.orders) > 0:
			t := a.pop()
			switch {
			case t.fork != nil:
				return a.fork(t.fork)
			case t.order == run.OrderResume:
				if err := a.enterAgain(); err != nil {
					return err
				}
				return a.ask(run.GuestReady{Lease: a.lease})
			}
			return errSuspended
		case a.halted != nil:
			return a.halted
		}
		a.evict, a.until = false, forever
		a.inside(run.Evict{Lease: a.lease})
	}
}

func (a *actor) enterAgain() error {
	if err := a.block(waitTurn); err != nil {
		return err
	}
	if a.halted != nil {
		return a.halted
	}
	if !a.x.h.active {
		return errDraining
	}
	return nil
}

// fork executes a body in the instance of its waiting guest.
func (a *actor) fork(of *run.Attempt) error {
	if err := a.enterAgain(); err != nil {
		return err
	}
	if a.w.odds(1, 5) {
		a.inside(run.NotForked{Lease: a.lease, Attempt: of})
		return errSuspended
	}
	if err := a.g.again(a.m.Fork(bodyConfig(of))); !errors.Is(err, errRunBody) {
		a.w.broken("a body begins where its guest waits", "%s: step %s: %v", a.name(), of.Name, err)
	}
	took, out := a.x.bodyOutcome(of)
	a.until = a.w.mono + took
	if err := a.block(waitBody); err != nil {
		return err
	}
	if a.halted != nil {
		out = run.StepOutcome{Abandoned: true}
	}
	if a.halted != nil || a.w.odds(1, 10) { // it traps
		a.inside(run.AttemptEnds{Attempt: of, Outcome: out})
		return errSuspended
	}
	return a.ask(run.BodyEnds{Lease: a.lease, Attempt: of, Outcome: out})
}

// finish says what the guest's return means.
func (a *actor) finish(code int) error {
	if err := a.m.LeftOver(); err != nil {
		return err
	}
	out := a.m.Outcome()
	e := store.Entry{Kind: store.KindCompleted, Data: out.Result}
	if code != 0 {
		e = store.Entry{Kind: store.KindFailed, Data: out.Failure}
		if out.Cancelled {
			e.Kind = store.KindCancelled
		}
	}
	return &endEntry{e}
}

type endEntry struct{ entry store.Entry }

func (e *endEntry) Error() string { return "the run has " + e.entry.Kind.String() }

// end reports the end of an activation to its run.
func (a *actor) end(err error) run.End {
	var ended *endEntry
	var mismatch *replay.Mismatch
	var refused *replay.RefusedError
	switch {
	case errors.As(err, &ended):
		return run.End{Entry: &ended.entry}
	case errors.Is(err, replay.ErrContinue):
		if err := a.m.LeftOver(); err != nil {
			return run.End{Mismatch: err.Error()}
		}
		st, out := &a.lease.State, a.m.Outcome()
		return run.End{Continue: &run.Continue{Input: out.Continue.Input, Version: st.Version, Module: st.Module,
			Cancelled: out.Cancelled, Told: a.m.Told}}
	case errors.As(err, &mismatch):
		return run.End{Mismatch: mismatch.Error()}
	case errors.As(err, &refused):
		return run.End{Entry: &store.Entry{Kind: store.KindFailed, Data: refused.JSON}}
	case errors.Is(err, errTrap), errors.Is(err, errDeadlock):
		data, _ := json.Marshal(&abi.Error{Code: abi.StepFailed, Kind: abi.KindTrap, Message: err.Error()})
		return run.End{Entry: &store.Entry{Kind: store.KindFailed, Data: data}}
	}
	return run.End{Fault: err}
}

// tail is the journal of a lent run, for the machine.
type tail struct{ a *actor }

func (t tail) Entries() []store.Entry          { return t.a.lease.Entries() }
func (t tail) CallRoom() error                 { return t.a.lease.CallRoom() }
func (t tail) CheckAttribute(key string) error { return t.a.lease.CheckAttribute(key) }
func (t tail) Now() int64                      { return t.a.lease.Now(t.a.x.h.now()) }

func (t tail) Append(e store.Entry) (store.Entry, error) {
	if t.a.halted != nil {
		return e, t.a.halted
	}
	t.a.appends()
	return t.a.lease.Append(t.a.x.h.now(), e)
}
