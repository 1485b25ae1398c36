package guest

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// errSuspended ends an activation that was ordered to give up its instance.
var errSuspended = errors.New("suspended")

// Activation is one execution of a workflow under a lease of its run: it replays, runs live, and suspends or
// finishes.
type Activation struct {
	workflow
	events Events

	orders   chan told
	yield    atomic.Bool
	halts    context.CancelCauseFunc
	placed   *admission.Place
	entrance *entrant    // queue for room, before it has an instance
	linger   clock.Timer // of its current wait
	waited   int         // number of waits
	size     int64       // bytes of its linear memory at the last wait, or at the beginning
	resident int64       // bytes of the instance when it was last measured; 0 = never
	holds    int64       // bytes of everything that the guest holds while it waits
	body     *forkedBody // the body running in its instance; nil if there is none
	span     span
	passed   passedEntries
	share    admission.JournalShare // of the memory for journals
	flushAt  int64                  // size of the journal in bytes at which the guest next yields for a commit
	left     bool                   // it was ordered to freeze: the run belongs to another activation
}

// errOwes ends an activation before it begins, because the runs of its namespace have written too much.
var errOwes = errors.New("its namespace owes what it has written")

// told is an order, or a body to execute while the guest waits.
type told struct {
	order run.Order
	fork  *run.Attempt
}

// ordersAhead is more than the orders that can be queued before the activation reads one: to park, and then another
// one.
const ordersAhead = 4

// Admission classes in which an activation waits for its first place.
const (
	Woken    = admission.Woken
	Starting = admission.Starting
)

// Activate makes an activation for a lease, stores it in the lease's field Guest, and runs it in a goroutine as soon
// as there is a place for it. It calls done after the last event of the activation.
func (r *Runner) Activate(l *run.Lease, c admission.Class, events Events, done func()) {
	a := &Activation{workflow: workflow{lease: l}, events: events, orders: make(chan told, ordersAhead)}
	of := admission.JournalGroup{Namespace: l.State.Run.Namespace, Workflow: l.State.Workflow}
	j := l.Run().Journal() // the lease's state is as of the newest commit
	a.share = r.cfg.Journals.Share(of, l.State.Run, admission.JournalSize(j.Bytes(), j.Len()))
	l.Guest = a
	ctx, cancel := context.WithCancelCause(r.ctx)
	a.halts = cancel
	refuse := func() {
		events.Inside(l.State.Run, run.Refused{Lease: l})
		cancel(nil)
		done()
	}
	end, err := r.begin()
	if err != nil {
		refuse()
		return
	}
	a.placed = r.admission.NewPlace(max(r.modules.Resident(l.State.Module), l.Needs)).Of(
		uint32(l.State.Run.Namespace), l.State.Workflow, l.State.Run.ID)
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
	a.entrance = &entrant{Places: r.admission, Share: &a.share, Ends: ctx, Draining: r.draining,
		Request: &admission.Request{Place: a.placed, Class: c, Begin: begin, Refuse: func() {
			refuse()
			end()
		}}}
	a.entrance.Ask(l.Grows)
}

// Order passes an order to the activation. The writer's goroutine calls it once for each event that asks for an
// order, and once more after an order to park. Another order may follow if the run was lost. Order wakes the guest
// only for work of its own: it parks a waiting guest itself, and if a place is free for a guest that resumes, it
// reports the guest ready at once.
func (a *Activation) Order(o run.Order) {
	switch {
	case o == run.OrderPark:
		a.placed.Park(a.holds)
	case o == run.OrderResume && a.placed.TryEnter():
		a.events.Ready(a.lease)
	default:
		if o == run.OrderGo || o == run.OrderDump {
			a.placed.Wake()
		}
		a.orders <- told{order: o}
	}
}

// Fork makes the parked activation execute a body in its instance.
func (a *Activation) Fork(attempt *run.Attempt) { a.orders <- told{fork: attempt} }

// Yield makes the activation yield at its next call, or within a grant of fuel.
func (a *Activation) Yield() { a.yield.Store(true) }

// Halt ends the activation at its next call, or within a grant of fuel; without a place, at once.
func (a *Activation) Halt(cause error) {
	a.halts(cause)
	if a.entrance != nil {
		a.entrance.Withdraw()
	}
}

// run performs the activation and reports its end.
func (a *Activation) run(ctx context.Context, r *Runner) {
	st := &a.lease.State
	a.span.Began = clock.System().Now()
	err := a.perform(ctx, r, st)
	a.inst = nil // the run refers to a as long as an attempt is in flight
	// Report the activation before the run continues: listeners must hear of it before the run's end.
	tell := func(end string) {
		if r.cfg.OnEnd != nil {
			r.cfg.OnEnd(a.span.Report(st, end, a.Granted))
		}
	}
	if errors.Is(err, admission.ErrStopped) || errors.Is(err, errOwes) {
		tell(EndSuspended)
		a.events.Inside(st.Run, run.Refused{Lease: a.lease})
		return
	}
	if left := toldToLeave(err); left.Evicted {
		tell(EndCrowded)
		left.Needs = max(left.Needs, a.lease.Needs) // it had asked for this already
		a.events.Guest(a.lease, run.GuestEnds{Lease: a.lease, End: left})
		return
	}
	if errors.Is(err, errSuspended) || context.Cause(ctx) != nil && errors.Is(err, context.Cause(ctx)) {
		if ctx.Err() == nil {
			tell(EndSuspended)
			return
		}
		// The host stops, or has lost the run: another activation answers its callers.
		tell(EndHalted)
		a.events.Guest(a.lease, run.GuestEnds{Lease: a.lease, End: run.End{Evicted: true}})
		return
	}
	ended := a.end(ctx, err)
	if a.span.Thawed && ended.Mismatch != "" { // a replay shows whether that is true
		ended = run.End{Fault: fmt.Errorf("after it was thawed: %s", ended.Mismatch)}
	}
	tell(endOf(&ended))
	a.events.Guest(a.lease, run.GuestEnds{Lease: a.lease, End: ended})
}

// toldToLeave returns the end of a guest that gave up its instance because of what it holds or how long it computes,
// with its needs for the next activation; the zero End if it ended otherwise.
func toldToLeave(err error) run.End {
	switch {
	case errors.Is(err, admission.ErrCrowded):
		return run.End{Evicted: true, Needs: abi.MaxMemoryBytes}
	case errors.Is(err, admission.ErrSlow):
		return run.End{Evicted: true, Needs: admission.LargeBytes}
	case errors.Is(err, admission.ErrJournalsFull):
		return run.End{Evicted: true, Grows: true}
	}
	return run.End{}
}

// perform runs the guest. The error says how it ended; it is an *endEntry if the guest returned.
func (a *Activation) perform(ctx context.Context, r *Runner, st *store.RunState) error {
	defer a.placed.Leave()
	if r.cfg.Owes(st.Run.Namespace) {
		return errOwes
	}
	mod, err := r.modules.Get(st.Module)
	if err != nil && ctx.Err() != nil { // compilation was cancelled
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("module %s: %w", st.Module, err)
	}
	// Read the grants here, so that a failure of the store repeats the activation and does not refuse a call.
	grants, err := r.modules.Grants(r.ctx, st.Run.Namespace, st.Workflow, st.Version)
	if err != nil {
		return err
	}
	a.init(r, mod, st.Run)
	a.grants = grants
	inst, err := mod.Instantiate(ctx)
	if err != nil && ctx.Err() != nil { // as above: the module had been unloaded
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
	cfg := replay.Config{Mode: replay.Live, Started: info.Started, Input: info.Input, MaxChildren: r.cfg.MaxChildren,
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
	a.wait, a.Look, a.place = a.waits, a.checkIn, a.placed
	a.Slice = func() error { return a.placed.Slice(ctx, a.weight(), a.body == nil) }
	a.mayFork = mod.BodiesEvent && r.cfg.Linger > 0
	code, err := a.callIn(ctx, inst, export)
	if a.left { // whatever the guest did about it
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
		return err // it does not have the run
	}
	a.Flush()
	if err != nil {
		return err
	}
	return a.finish(code)
}

// ask sends an event to the writer and waits until the writer lends the run. An error says why it does not.
func (a *Activation) ask(ctx context.Context, ev run.Event) error {
	a.events.Guest(a.lease, ev)
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

// flushBytes is how much a guest appends before it yields for a commit, though it could continue: a commit of the
// starts of a thousand children, 200 KiB, delays all other runs by tens of milliseconds if processors are busy.
const flushBytes = 32 << 10

// checkIn yields if the writer has events for the run, or the guest has appended much, and waits if journals take too
// much memory.
func (a *Activation) checkIn() error {
	if a.body != nil {
		return nil
	}
	if a.span.Passed.IsZero() && a.r.cfg.OnEnd != nil && !a.Passed() {
		a.span.Passed = clock.System().Now()
	}
	j := a.lease.Run().Journal()
	if n := j.Bytes(); n >= a.flushAt {
		first := a.flushAt == 0
		a.flushAt = n + flushBytes
		if !first {
			if err := a.Untimed(a.giveBack); err != nil { // takes as long as a commit
				return err
			}
		}
	}
	if bytes := admission.JournalSize(j.Bytes(), j.Len()); a.share.Grown(bytes) {
		wait := func() error { return a.share.Wait(a.ctx, bytes, a.yields) }
		return a.Untimed(func() error { return a.without(wait) })
	}
	if !a.yield.Load() {
		return nil
	}
	return a.Untimed(a.yields)
}

// yields gives the run back for a moment if the writer asked for it.
func (a *Activation) yields() error {
	if !a.yield.Swap(false) {
		return nil
	}
	return a.giveBack()
}

// giveBack returns the run to the writer, and gets it back after the writer has handled its events.
func (a *Activation) giveBack() error { return a.ask(a.ctx, run.GuestYields{Lease: a.lease}) }

// waits is called when the guest waits for an event that has not happened. It returns nil when the guest should check
// again. The guest keeps its instance while commits and attempts are in progress, until it has lingered long enough
// or is evicted.
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
	a.events.Guest(a.lease, run.GuestWaits{Lease: a.lease, Suspension: a.Suspension(), FromMs: from, WasMs: was,
		CanFork: a.mayFork && !leaves && a.placed.MayBeginBody(), Leaves: leaves})
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
		a.events.Inside(a.key, run.Evict{Lease: a.lease}) // the next order says whether to give up
	}
}

// obey carries out an order while the guest waits.
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

// A measurement of an instance asks the kernel, which takes as long as a whole step. While the memory does not grow, an instance
// is measured at its 16th wait, since most guests wait less often in one instance, and then after twice as many waits each time,
// up to 256. One that could have become a large guest since the last measurement is measured at every 16th.
const (
	waitsPerLook    = 16
	maxWaitsPerLook = 256
)

// measures reports whether an instance is measured at its n-th wait, although its memory has not grown. It may hold
// unmeasured bytes more than at the last measurement.
func measures(n int, unmeasured int64) bool {
	return n%waitsPerLook == 0 && (unmeasured >= admission.LargeBytes || n%maxWaitsPerLook == 0 || bits.OnesCount(uint(n)) == 1)
}

// measure updates what the guest holds while it waits. Until the first measurement, the estimate of the module is used.
func (a *Activation) measure() {
	a.waited++
	if size := a.inst.Size(); size != a.size || measures(a.waited, size-a.resident) {
		a.size, a.resident = size, a.inst.Resident()
	}
	a.holds = a.mod.Resident()
	if a.resident > 0 {
		a.holds = a.resident + a.held()
	}
}

// dump makes the guest report its stacks, or ends it.
func (a *Activation) dump() error {
	if a.Dump() {
		return nil
	}
	return replay.ErrDeadlock
}

// resume waits for a place and for the run.
func (a *Activation) resume() error {
	if err := a.enterAgain(); err != nil {
		return err
	}
	return a.ask(a.ctx, run.GuestReady{Lease: a.lease})
}

func (a *Activation) enterAgain() error { return a.placed.Enter(a.ctx, admission.Resuming, a.r.quit()) }
