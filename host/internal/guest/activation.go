package guest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/budget"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/entrance"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/report"
	"github.com/wfhost/wfhost/host/internal/room"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/warm"
	"github.com/wfhost/wfhost/store"
)

// errSuspended ends an activation that was told to give its instance up.
var errSuspended = errors.New("suspended")

// Activation is one pass over a run: replay, run live, suspend or finish.
type Activation struct {
	workflow
	desk Desk

	orders   chan told
	yield    atomic.Bool
	halts    context.CancelCauseFunc
	placed   *admission.Place
	entrance *entrance.Guest // where it waits before it has an instance
	linger   clock.Timer     // of its newest wait
	waited   int             // how often the guest has waited
	size     int64           // bytes of its linear memory, then or at the beginning
	resident int64           // bytes of the instance, when that was last looked at; 0 = it was not
	holds    int64           // bytes of everything that the guest holds where it waits
	body     *forkedBody     // the body that its instance executes; nil if none does
	span     report.Span
	passed   warm.Passed
	share    room.Share // of the memory for journals
	flushAt  int64      // bytes of the journal at which the guest yields for a commit
	left     bool       // it was told to freeze: the run is another one's
}

// errOwes ends an activation before it begins: the runs of its namespace have written too much.
var errOwes = errors.New("its namespace owes what it has written")

// told is an order, or a body to be executed where the guest waits.
type told struct {
	order run.Order
	fork  *run.Attempt
}

// ordersAhead is more than the orders that can come before the activation looks: to park, and then another one.
const ordersAhead = 4

// The classes in which an activation waits for its first place.
const (
	Woken    = admission.Woken
	Starting = admission.Starting
)

// Activate makes an activation for a lease, which has it in its field Guest, and runs it in a goroutine of its own when
// there is a place for it. done is called when it has ended, after its last event.
func (r *Runner) Activate(l *run.Lease, c admission.Class, desk Desk, done func()) {
	a := &Activation{workflow: workflow{lease: l}, desk: desk, orders: make(chan told, ordersAhead)}
	of := room.Group{Namespace: l.State.Run.Namespace, Workflow: l.State.Workflow}
	j := l.Run().Journal() // the state is as of the newest commit
	a.share = r.cfg.Journals.Share(of, l.State.Run, room.Size(j.Bytes(), j.Len()))
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
	a.placed = r.room.NewPlace(max(r.modules.Resident(l.State.Module), l.Needs)).Of(uint32(l.State.Run.Namespace), l.State.Workflow,
		l.State.Run.ID)
	begin := func() {
		r.workers.Go(func() {
			if a.entrance.Barred(c == Starting) {
				return
			}
			defer done()
			defer end()
			defer cancel(nil)
			a.run(ctx, r)
		})
	}
	a.entrance = &entrance.Guest{Places: r.room, Share: &a.share, Ends: ctx, Draining: r.draining,
		Request: &admission.Request{Place: a.placed, Class: c, Begin: begin, Refuse: func() {
			refuse()
			end()
		}}}
	a.entrance.Ask(l.Grows)
}

// Order tells the activation what to do: once for each event that asks for an order, and once more after an order to park, by
// the writer's goroutine. Another one may follow where the run was lost. The guest is woken only for what it has to do
// itself: it is parked where it waits, and where there is room for it to go on, it says so at once.
func (a *Activation) Order(o run.Order) {
	switch {
	case o == run.OrderPark:
		a.placed.Park(a.holds)
	case o == run.OrderResume && a.placed.TryEnter():
		a.desk.Ready(a.lease)
	default:
		if o == run.OrderGo || o == run.OrderDump {
			a.placed.Wake()
		}
		a.orders <- told{order: o}
	}
}

// Fork has the activation execute a body where it waits, parked.
func (a *Activation) Fork(attempt *run.Attempt) { a.orders <- told{fork: attempt} }

// Yield has the activation yield at its next call, or within a grant of fuel.
func (a *Activation) Yield() { a.yield.Store(true) }

// Halt ends the activation at its next call, or within a grant of fuel; one without a place, at once.
func (a *Activation) Halt(cause error) {
	a.halts(cause)
	if a.entrance != nil {
		a.entrance.Withdraw()
	}
}

// run performs the activation, and reports its end.
func (a *Activation) run(ctx context.Context, r *Runner) {
	st := &a.lease.State
	a.span.Began = budget.Clock.Now()
	err := a.perform(ctx, r, st)
	// Report the activation before the run goes on: listeners must hear of it before they hear of the run's end.
	tell := func(end string) {
		if r.cfg.OnEnd != nil {
			r.cfg.OnEnd(a.span.Report(st, end, a.Granted))
		}
	}
	if errors.Is(err, admission.ErrStopped) || errors.Is(err, errOwes) {
		tell(report.EndSuspended)
		a.desk.Inside(st.Run, run.Refused{Lease: a.lease})
		return
	}
	if left := toldToLeave(err); left.Evicted {
		tell(report.EndCrowded)
		left.Needs = max(left.Needs, a.lease.Needs) // as it was told before
		a.desk.Guest(a.lease, run.GuestEnds{Lease: a.lease, End: left})
		return
	}
	if errors.Is(err, errSuspended) || context.Cause(ctx) != nil && errors.Is(err, context.Cause(ctx)) {
		if ctx.Err() == nil {
			tell(report.EndSuspended)
			return
		}
		// The host stops, or has lost the run: what waits for this is answered elsewhere.
		tell(report.EndHalted)
		a.desk.Guest(a.lease, run.GuestEnds{Lease: a.lease, End: run.End{Evicted: true}})
		return
	}
	ended := a.end(ctx, err)
	if a.span.Thawed && ended.Mismatch != "" { // a replay says whether that is so
		ended = run.End{Fault: fmt.Errorf("after it was thawed: %s", ended.Mismatch)}
	}
	tell(endOf(&ended))
	a.desk.Guest(a.lease, run.GuestEnds{Lease: a.lease, End: ended})
}

// toldToLeave returns the end of a guest that gave its instance up because of what it holds, or how long it computes, with
// what it asks for when it comes again; the zero End if it ended in another way.
func toldToLeave(err error) run.End {
	switch {
	case errors.Is(err, admission.ErrCrowded):
		return run.End{Evicted: true, Needs: abi.MaxMemoryBytes}
	case errors.Is(err, admission.ErrSlow):
		return run.End{Evicted: true, Needs: admission.LargeBytes}
	case errors.Is(err, room.ErrFull):
		return run.End{Evicted: true, Grows: true}
	}
	return run.End{}
}

// perform runs the guest. The error says how it ended, an *endEntry if it returned.
func (a *Activation) perform(ctx context.Context, r *Runner, st *store.RunState) error {
	defer a.placed.Leave()
	if r.cfg.Owes(st.Run.Namespace) {
		return errOwes
	}
	mod, err := r.modules.Get(st.Module)
	if err != nil && ctx.Err() != nil { // compiling was broken off
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("module %s: %w", st.Module, err)
	}
	// Read here, so that a store that cannot be read repeats the activation, and no call is refused because of it.
	grants, err := r.modules.Grants(r.ctx, st.Run.Namespace, st.Workflow, st.Version)
	if err != nil {
		return err
	}
	a.init(r, mod, st.Run)
	a.grants = grants
	inst, err := mod.Instantiate(ctx)
	if err != nil && ctx.Err() != nil { // as above: the module had left memory
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	defer mod.Release(inst)
	if err := a.ask(ctx, run.GuestReady{Lease: a.lease}); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { a.Stop(context.Cause(ctx)) })()
	info := a.lease.Info()
	a.span.Rested = int(info.Rested)
	cfg := replay.Config{Mode: replay.Live, Started: info.Started, Input: info.Input, Children: r.cfg.Children,
		StartedUnixMs: info.StartedMs, NewToken: func() string { return run.NewToken(r.cfg.Random, st.Run) }, Tail: tail{&a.workflow},
		BodiesEvent: mod.BodiesEvent, OnWait: a.observer(info.Started.Iteration), Rested: info.Rested, HandlerError: a.handlerError}
	export := mod.Entry
	if a.thaw(inst, cfg) {
		export, a.span.Thawed = abi.ExportThaw, true
	} else {
		a.Machine = replay.New(cfg)
	}
	a.size = inst.Size()
	a.Keep, a.Drop, a.Kept = a.logLine, a.lease.Log().Drop, func(n uint64) bool { return a.lease.Log().Has(n, a.Passed()) }
	a.wait, a.Look, a.place = a.waits, a.looks, a.placed
	a.Slice = func() error { return a.placed.Slice(ctx, a.weight(), a.body == nil) }
	a.mayFork = mod.BodiesEvent && r.cfg.Linger > 0
	code, err := a.callIn(ctx, inst, export)
	if a.left { // whatever the guest has done about it
		if errors.Is(err, engine.ErrFreeze) {
			a.freeze(inst)
		}
		return errSuspended
	}
	if a.body != nil {
		return a.body.brokeOff(code, err)
	}
	if cause := a.Stopped(); cause != nil {
		return cause
	}
	if errors.Is(err, errSuspended) || errors.Is(err, admission.ErrStopped) || toldToLeave(err).Evicted || ctx.Err() != nil {
		return err // the run is not lent to it
	}
	a.Flush()
	if err != nil {
		return err
	}
	return a.finish(code)
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

// flushBytes is how much a guest appends before it is committed, though the guest goes on, without waiting: a commit of a
// thousand children's starts, 200 KiB, holds all others up for tens of milliseconds where processors are busy.
const flushBytes = 32 << 10

// looks yields if the writer has something for the run, or the guest has appended much.
func (a *Activation) looks() error {
	if a.body != nil {
		return nil
	}
	if a.span.Passed.IsZero() && a.r.cfg.OnEnd != nil && !a.Passed() {
		a.span.Passed = budget.Clock.Now()
	}
	j := a.lease.Run().Journal()
	if n := j.Bytes(); n >= a.flushAt {
		first := a.flushAt == 0
		a.flushAt = n + flushBytes
		if !first {
			if err := a.Untimed(a.giveBack); err != nil { // as long as a commit takes
				return err
			}
		}
	}
	if bytes := room.Size(j.Bytes(), j.Len()); a.share.Grown(bytes) {
		wait := func() error { return a.share.Wait(a.ctx, bytes, a.yields) }
		return a.Untimed(func() error { return a.without(wait) })
	}
	if !a.yield.Load() {
		return nil
	}
	return a.Untimed(a.yields)
}

// yields gives the run back for a moment if the writer has something for it.
func (a *Activation) yields() error {
	if !a.yield.Swap(false) {
		return nil
	}
	return a.giveBack()
}

// giveBack returns the run to the writer, and takes it again when the writer has done what it has for it.
func (a *Activation) giveBack() error { return a.ask(a.ctx, run.GuestYields{Lease: a.lease}) }

// waits is called when the guest waits for something that has not happened. It returns nil when the guest may look again.
// The guest keeps its instance while commits and attempts go on, for as long as it may linger and is not evicted.
func (a *Activation) waits() error {
	if err := a.Stopped(); err != nil {
		return err
	}
	a.yield.Store(false)
	if a.mod.CanThaw {
		a.passed.See(a.lease.Entries())
	}
	a.measure()
	a.placed.Rest() // whatever the writer does meanwhile
	leaves := a.r.cfg.Owes(a.key.Namespace)
	from, was := a.WaitsFrom()
	a.desk.Guest(a.lease, run.GuestWaits{Lease: a.lease, Suspension: a.Suspension(), FromMs: from, WasMs: was,
		CanFork: a.mayFork && !leaves, Leaves: leaves})
	a.linger = clock.Again(a.r.cfg.Clock, a.linger, a.r.cfg.Linger)
	defer a.linger.Stop()
	lingered := a.linger.C()
	for {
		select {
		case t := <-a.orders:
			return a.obey(t)
		case <-a.placed.Evicted():
		case <-lingered:
			lingered = nil
		case <-a.ctx.Done():
			return context.Cause(a.ctx)
		}
		a.desk.Inside(a.key, run.Evict{Lease: a.lease}) // the order that follows says whether it is so
	}
}

// obey does what the guest is told where it waits.
func (a *Activation) obey(t told) error {
	if t.fork != nil {
		return a.fork(t.fork)
	}
	switch t.order {
	case run.OrderGo:
		return nil
	case run.OrderDump:
		return a.dump()
	case run.OrderResume:
		return a.resume()
	case run.OrderFreeze:
		if a.freezable && a.body == nil {
			a.left = true
			return engine.ErrFreeze
		}
	case run.OrderPark, run.OrderSuspend:
	}
	return errSuspended
}

// waitsPerLook is how often a guest waits between two looks at what its instance holds, unless its memory has grown: a look asks
// the kernel, and most guests wait less often in one instance. What others of the module held has to do for them.
const waitsPerLook = 16

// measure says what the guest holds where it waits.
func (a *Activation) measure() {
	a.waited++
	if size := a.inst.Size(); size != a.size || a.waited%waitsPerLook == 0 {
		a.size, a.resident = size, a.inst.Resident()
	}
	a.holds = a.mod.Resident()
	if a.resident > 0 {
		a.holds = a.resident + a.held()
	}
}

// dump lets the guest report its stacks, or ends it.
func (a *Activation) dump() error {
	if a.Dump() {
		return nil
	}
	return replay.ErrDeadlock
}

// resume waits for a place, and for the run.
func (a *Activation) resume() error {
	if err := a.enterAgain(); err != nil {
		return err
	}
	return a.ask(a.ctx, run.GuestReady{Lease: a.lease})
}

func (a *Activation) enterAgain() error { return a.placed.Enter(a.ctx, admission.Resuming, a.r.quit()) }
