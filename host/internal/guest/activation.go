package guest

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Desk takes the events of guests to the writer of their run. It does not block.
type Desk interface {
	// Guest takes an event of an activation. Where the event asks for an order, Activation.Order is called with it.
	Guest(l *run.Lease, ev run.Event)
	// Inside takes an event of a run that is no activation's: Evict, Refused, AttemptLogs.
	Inside(key store.RunKey, ev run.Event)
}

// errSuspended ends an activation that was told to give its instance up.
var errSuspended = errors.New("suspended")

// Activation is one pass over a run: replay, run live, suspend or finish. It is the tail of the run's journal for the
// machine while the run is lent to it.
type Activation struct {
	guest
	desk  Desk
	lease *run.Lease

	orders  chan told
	yield   atomic.Bool
	out     bool // it has no place, and holds nothing
	halts   context.CancelCauseFunc
	request *request // of its first place
	placed  *place
	body    *forkedBody // the body that its instance executes; nil if none does
	span    span
}

// told is an order, or a body to be executed where the guest waits.
type told struct {
	order run.Order
	fork  *run.Attempt
}

// ordersAhead is more than the orders that can come before the activation looks: to park, and then another one.
const ordersAhead = 4

// The classes in which an activation waits for its first place.
const (
	Woken    = woken
	Starting = starting
)

// Activate makes an activation for a lease, which has it in its field Guest, and runs it in a goroutine of its own when
// there is a place for it. done is called when it has ended, after its last event.
func (r *Runner) Activate(l *run.Lease, c class, desk Desk, done func()) {
	a := &Activation{desk: desk, lease: l, orders: make(chan told, ordersAhead)}
	l.Guest = a
	ctx, cancel := context.WithCancelCause(r.ctx)
	a.halts = cancel
	refuse := func() {
		desk.Inside(l.State.Run, run.Refused{Lease: l})
		cancel(nil)
		done()
	}
	end, err := r.begin()
	if err != nil {
		refuse()
		return
	}
	a.placed = r.room.newPlace(r.expected(l.State.Module))
	a.request = &request{place: a.placed, c: c, begin: func() {
		r.workers.run(func() {
			defer done()
			defer end()
			defer cancel(nil)
			a.run(ctx, r)
		})
	}, refuse: func() {
		refuse()
		end()
	}}
	r.room.ask(a.request)
	if r.draining() && r.room.withdraw(a.request) {
		a.request.refuse()
	}
}

// Order tells the activation what to do. It is called at most once for each event that asks for an order, and once more
// after an order to park.
func (a *Activation) Order(o run.Order) { a.orders <- told{order: o} }

// Fork has the activation execute a body where it waits, parked.
func (a *Activation) Fork(attempt *run.Attempt) { a.orders <- told{fork: attempt} }

// Yield has the activation yield at its next call, or within a slice of fuel.
func (a *Activation) Yield() { a.yield.Store(true) }

// Halt ends the activation at its next call, or within a slice of fuel; one that has no place yet, at once.
func (a *Activation) Halt(cause error) {
	a.halts(cause)
	if a.placed.a.withdraw(a.request) {
		a.request.refuse()
	}
}

// run performs the activation, and reports its end.
func (a *Activation) run(ctx context.Context, r *Runner) {
	st := &a.lease.State
	a.span.began = budgetClock.Now()
	end := endSuspended
	defer func() { a.report(r, end) }()
	err := a.perform(ctx, r, st)
	if errors.Is(err, errDraining) {
		a.desk.Inside(st.Run, run.Refused{Lease: a.lease})
		return
	}
	if errors.Is(err, errSuspended) || context.Cause(ctx) != nil && errors.Is(err, context.Cause(ctx)) {
		if ctx.Err() != nil { // the host stops, or has lost the run: what waits for this is answered elsewhere
			end = endHalted
			a.desk.Guest(a.lease, run.GuestEnds{Lease: a.lease, End: run.End{Evicted: true}})
		}
		return
	}
	ended := a.end(ctx, err)
	end = endOf(&ended)
	a.desk.Guest(a.lease, run.GuestEnds{Lease: a.lease, End: ended})
}

// perform runs the guest. A nil error means that it returned, and that lent is what it appended last.
func (a *Activation) perform(ctx context.Context, r *Runner, st *store.RunState) error {
	defer a.leave()
	mod, err := r.module(r.ctx, st.Module)
	if err != nil {
		return fmt.Errorf("module %s: %w", st.Module, err)
	}
	// Read here, so that a store that cannot be read repeats the activation, and no call is refused because of it.
	g, err := r.grants(r.ctx, st.Run.Namespace, st.Workflow, st.Version)
	if err != nil {
		return err
	}
	a.init(r, mod, st.Run)
	inst, err := mod.compiled.Instantiate(ctx)
	if err != nil {
		return err
	}
	defer a.release(inst)
	if err := a.ask(ctx, run.GuestReady{Lease: a.lease}); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { a.halt(context.Cause(ctx)) })()
	info := a.lease.Info()
	a.span.rested = int(info.Rested)
	a.Machine = replay.New(replay.Config{Mode: replay.Live, Started: info.Started, Input: info.Input,
		StartedUnixMs: info.StartedMs, NewToken: func() string { return NewToken(r.cfg.Random, st.Run) }, Tail: tail{a},
		BodiesEvent: mod.bodiesEvent, OnWait: a.observer(), Rested: info.Rested,
		HandlerError: func(h string) error { return r.handlerError(st, g, mod, h) }})
	a.log, a.logged = a.logLine, func(n uint64) bool { return a.lease.Logged(n, a.Passed()) }
	a.wait, a.look = a.waits, a.looks
	a.mayFork = mod.bodiesEvent && r.cfg.Linger > 0
	code, err := a.callIn(ctx, inst, mod.entry)
	if a.body != nil {
		return a.body.brokeOff(code, err)
	}
	if cause := a.stopped(); cause != nil {
		return cause
	}
	if errors.Is(err, errSuspended) {
		return err
	}
	a.flushOutput()
	if err != nil {
		return err
	}
	return a.finish(code)
}

// leave gives back what the activation has of the admission.
func (a *Activation) leave() {
	switch {
	case a.out:
	case a.placed.evict != nil:
		a.placed.unpark()
	default:
		a.placed.leave()
	}
}

// ask takes an event to the writer and waits until the run is lent, or for another reason.
func (a *Activation) ask(ctx context.Context, ev run.Event) error {
	a.desk.Guest(a.lease, ev)
	select {
	case t := <-a.orders:
		if t.order == run.OrderGo {
			return nil
		}
		return errSuspended
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// looks yields if the writer has something for the run.
func (a *Activation) looks() error {
	if a.body != nil {
		return nil
	}
	if a.arrived(); !a.yield.Load() {
		return nil
	}
	a.yield.Store(false)
	return a.ask(a.ctx, run.GuestYields{Lease: a.lease})
}

// waits is called when the guest waits for something that has not happened. It returns nil when the guest may look again.
func (a *Activation) waits() error {
	if err := a.stopped(); err != nil {
		return err
	}
	a.yield.Store(false)
	a.desk.Guest(a.lease, run.GuestWaits{Lease: a.lease, Suspension: a.Suspension(), CanFork: a.mayFork})
	select {
	case t := <-a.orders:
		switch t.order {
		case run.OrderGo:
			return nil
		case run.OrderDump:
			return a.dump()
		case run.OrderPark:
			return a.park()
		case run.OrderResume, run.OrderSuspend:
		}
		return errSuspended
	case <-a.ctx.Done():
		return context.Cause(a.ctx)
	}
}

// errDeadlock ends a workflow that waits for something that can never come.
var errDeadlock = errors.New("deadlock: the workflow waits for something that can never come")

// dump lets the guest report its stacks, or ends it.
func (a *Activation) dump() error {
	if a.Dump() {
		return nil
	}
	return errDeadlock
}

// park keeps the instance while commits and attempts go on. The guest has no place meanwhile.
func (a *Activation) park() error {
	a.placed.park(a.inst.Resident() + a.held())
	linger := a.r.cfg.Clock.NewTimer(a.r.cfg.Linger)
	defer linger.Stop()
	evict, lingered := a.placed.evict, linger.C()
	for {
		select {
		case t := <-a.orders:
			switch {
			case t.fork != nil:
				return a.fork(t.fork)
			case t.order == run.OrderResume:
				return a.resume()
			}
			return errSuspended
		case <-evict:
			evict = nil
		case <-lingered:
			lingered = nil
		case <-a.ctx.Done():
			return context.Cause(a.ctx)
		}
		a.desk.Inside(a.key, run.Evict{Lease: a.lease}) // the order that follows says whether it is so
	}
}

// resume waits for a place, and for the run.
func (a *Activation) resume() error {
	if err := a.enterAgain(); err != nil {
		return err
	}
	return a.ask(a.ctx, run.GuestReady{Lease: a.lease})
}

func (a *Activation) enterAgain() error {
	a.placed.unpark()
	err := a.placed.enter(a.ctx, resuming, a.r.quit())
	a.out = err != nil
	return err
}

// end says what the end of an activation means for the run.
func (a *Activation) end(ctx context.Context, err error) run.End {
	var trap *engine.Trap
	var mismatch *replay.Mismatch
	var refused *replay.RefusedError
	var ended *endEntry
	switch {
	case errors.As(err, &ended):
		return run.End{Entry: &ended.entry}
	case errors.Is(err, replay.ErrContinue):
		return a.continues(ctx)
	case errors.As(err, &mismatch):
		return run.End{Mismatch: mismatch.Error()}
	case errors.As(err, &refused):
		return run.End{Entry: &store.Entry{Kind: store.KindFailed, Data: refused.JSON}}
	case errors.As(err, &trap):
		return failed(&abi.Error{Code: abi.StepFailed, Kind: abi.KindTrap, Message: trap.Message, Details: stack(trap)})
	case errors.Is(err, errFuel):
		return failed(&abi.Error{Code: abi.Limit, Kind: "cpu", Message: fmt.Sprintf("%v: the limit is about %d instructions",
			err, a.r.cfg.Fuel)})
	case errors.Is(err, errCalls):
		return failed(&abi.Error{Code: abi.Limit, Kind: "calls", Message: err.Error()})
	case errors.Is(err, errDeadlock):
		if data := a.Outcome().Failure; len(data) > 0 {
			return run.End{Entry: &store.Entry{Kind: store.KindFailed, Data: data}}
		}
		return failed(&abi.Error{Code: abi.StepFailed, Kind: "deadlock", Message: err.Error()})
	}
	return run.End{Fault: err}
}

// failed returns the end of a run that failed by an error of the host's making.
func failed(e *abi.Error) run.End {
	data, err := json.Marshal(e)
	if err != nil {
		data = []byte(`{"code":"STEP_FAILED","message":"the error cannot be shown"}`)
	}
	return run.End{Entry: &store.Entry{Kind: store.KindFailed, Data: data}}
}

func stack(t *engine.Trap) any {
	if t.Stack == "" {
		return nil
	}
	return map[string]string{"stack": t.Stack}
}

// endEntry is the end of a run that the guest has brought about.
type endEntry struct{ entry store.Entry }

func (e *endEntry) Error() string { return "the run has " + e.entry.Kind.String() }

// finish says what the guest's return means.
func (a *Activation) finish(code int32) error {
	if err := a.LeftOver(); err != nil {
		return err
	}
	out := a.Outcome()
	e := store.Entry{Kind: store.KindCompleted, Data: out.Result}
	if code == 0 && !out.Completed && a.mod.command {
		e.Data = a.stdout
	}
	if len(e.Data) > abi.MaxPayloadBytes {
		code, out = 1, replay.Outcome{Failed: true, Failure: []byte(`{"code":"TOO_LARGE","message":` +
			`"standard output, which is the result of a command, is over the limit of 1048576 bytes"}`)}
	}
	if code != 0 {
		e = store.Entry{Kind: store.KindFailed, Data: out.Failure}
		if !out.Failed {
			e.Data, _ = json.Marshal(abi.Errorf(abi.StepFailed, "the workflow returned %d", code))
		}
		if out.Cancelled {
			e.Kind = store.KindCancelled
		}
	}
	return &endEntry{e}
}

// continues says under which version the run continues as new.
func (a *Activation) continues(ctx context.Context) run.End {
	if err := a.LeftOver(); err != nil {
		var mismatch *replay.Mismatch
		if errors.As(err, &mismatch) {
			return run.End{Mismatch: mismatch.Error()}
		}
		return run.End{Fault: err}
	}
	st := &a.lease.State
	out := a.Outcome()
	opts, err := abi.ParseContinueOptions(out.Continue.Options)
	if err != nil {
		return run.End{Fault: err}
	}
	c := &run.Continue{Input: out.Continue.Input, Version: st.Version, Module: st.Module, Cancelled: out.Cancelled, Told: a.Told}
	if opts.Version == abi.ContinueLatest {
		v, err := a.r.cfg.Store.Modules().Version(ctx, st.Run.Namespace, st.Workflow, 0)
		if err != nil {
			return run.End{Fault: err}
		}
		c.Version, c.Module = v.Number, v.Module
	}
	return run.End{Continue: c}
}

// logLine stores a line of workflow code, unless it was stored before.
func (a *Activation) logLine(n uint64, level int32, text string) {
	a.lease.Log(n, a.Passed(), store.LogLine{UnixMs: a.Now(), Level: int8(level), Text: text})
}

// tail is the journal of a run that is lent, for the machine.
type tail struct{ a *Activation }

func (t tail) Entries() []store.Entry          { return t.a.lease.Entries() }
func (t tail) CallRoom() error                 { return t.a.lease.CallRoom() }
func (t tail) CheckAttribute(key string) error { return t.a.lease.CheckAttribute(key) }

func (t tail) Append(e store.Entry) (store.Entry, error) {
	if err := t.a.stopped(); err != nil {
		return e, err
	}
	return t.a.lease.Append(t.a.r.cfg.Clock.Now().UnixMilli(), e)
}

// NewToken makes a token for a hook of a run: 130 random bits in base32 (RFC 4648, lower case), and the run's id, by
// which it is found.
func NewToken(random func([]byte), key store.RunKey) string {
	var b [17]byte
	random(b[:])
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:])
	return strings.ToLower(text)[:TokenBytes] + "." + key.ID
}

// TokenBytes is the length of the random part of a token.
const TokenBytes = 26

// realRandom fills p from the system's secure random.
func realRandom(p []byte) {
	if _, err := rand.Read(p); err != nil {
		panic(err) // crypto/rand.Read never fails since Go 1.24
	}
}

// realTime returns the wall clock and the time since now.
func (r *Runner) realTime() func() (int64, int64) {
	wall, start := r.cfg.Clock.Now(), budgetClock.Now()
	return func() (int64, int64) {
		elapsed := budgetClock.Now().Sub(start)
		return wall.Add(elapsed).UnixNano(), int64(elapsed)
	}
}
