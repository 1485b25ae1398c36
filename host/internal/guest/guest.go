package guest

import (
	"context"
	"errors"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/calls"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/store"
)

var (
	// errForked reports that the body that the guest waits for runs in the guest's own instance.
	errForked = errors.New("forked")
	// errBodyDeadlock fails the attempt of a body that waits without a clock.
	errBodyDeadlock = errors.New("deadlock: the step's body waits for something that can never come")
)

// guest is the common part of activations, bodies and step functions: an instance whose calls a replay machine
// answers, within its budgets. It is the engine.Host of the instance.
type guest struct {
	Metered // answers calls that need only the journal
	calls.Lines

	r    *Runner
	mod  *module.Module
	inst engine.Instance
	// wait blocks until the machine's last call can be repeated, or returns why it cannot. After errForked, the guest
	// forked answers the call.
	wait   func() error
	forked *guest
	// freezable says that the guest waits in a call where it can be frozen.
	freezable bool
	// mayFork says that the guest's instance may execute the bodies of its steps.
	mayFork bool

	ctx            context.Context  //nolint:containedctx // of the call in progress
	key            store.RunKey     // of the run
	grants         store.Grants     // of bodies and step functions
	place          *admission.Place // of a body, which gives it up while it waits
	looked, asides int64            // bytes of linear memory at the last measurement of grown, and number of its calls
	stdin          []byte
	read           bool
}

func (g *guest) init(r *Runner, mod *module.Module, run store.RunKey) {
	g.r, g.mod, g.key, g.Command = r, mod, run, mod.Command
	g.Limits = Limits{Grants: Grants(r.cfg.MaxFuel), CPU: r.cfg.MaxSegmentCPU, Calls: r.cfg.MaxHostCalls}
	g.Keep = func(uint64, int32, string) {}
	g.Slice = func() error { return g.place.Slice(g.ctx, g.weight(), false) }
}

// weight returns what the instance holds, or 0 if it is small: measuring a small one costs more than it is worth.
func (g *guest) weight() int64 {
	if g.inst == nil || g.inst.Size() < admission.LargeBytes {
		return 0
	}
	return g.inst.Resident()
}

// grown returns what the guest holds with its instance, or 0 between two measurements: see waitsPerLook.
func (g *guest) grown() int64 {
	g.asides++
	if g.inst.Size() == g.looked && g.asides%waitsPerLook != 0 {
		return 0
	}
	g.looked = g.inst.Size()
	return g.inst.Resident() + g.held()
}

// call calls an export of a new instance. The guest is stopped when ctx ends.
func (g *guest) call(ctx context.Context, export string) (int32, error) {
	defer context.AfterFunc(ctx, func() { g.Stop(context.Cause(ctx)) })()
	inst, err := g.mod.Instantiate(ctx)
	if err != nil {
		return 0, err
	}
	defer g.mod.Release(inst)
	return g.callIn(ctx, inst, export)
}

// callIn calls an export of an instance.
func (g *guest) callIn(ctx context.Context, inst engine.Instance, export string) (int32, error) {
	g.ctx, g.inst = ctx, inst
	if g.mayFork {
		inst.AllowFork()
	}
	left := inst.Fuel()
	g.Unfuelled = left <= 0
	code, err := inst.Call(ctx, export, g)
	g.Granted += left - inst.Fuel()
	if code != 0 && g.Outcome().Failed { // the guest exits with a failure of its own
		return code, nil
	}
	return code, err
}

// observer returns the callback that shows the memory of a waiting instance to OnWait; nil without OnWait.
func (g *guest) observer(iteration uint32) func(uint64) {
	if g.r.cfg.OnWait == nil {
		return nil
	}
	return func(consumed uint64) { g.r.cfg.OnWait(g.key, iteration, consumed, g.inst.Hash) }
}

// Await waits for handles.
func (g *guest) Await(handles []int64) (int64, error) {
	for {
		h, err := g.Machine.Await(handles)
		if err != replay.ErrSuspend { //nolint:errorlint // it is never wrapped, and this is the hottest path
			g.Rested()
			return h, err
		}
		if err := g.waited(); err != nil {
			if errors.Is(err, errForked) {
				return g.forked.Await(handles)
			}
			return 0, err
		}
	}
}

// waited waits for an event that has not happened. A body that meanwhile runs in the instance does not use the
// guest's budget.
func (g *guest) waited() error {
	defer g.Waited()
	return g.wait()
}

// Poll waits for a clock or an event.
func (g *guest) Poll(p engine.Poll) (engine.Ready, error) {
	for {
		r, err := g.Machine.Poll(replay.PollRequest{Events: p.Events, HasClock: p.HasClock, TimeoutNs: p.TimeoutNs})
		switch {
		case errors.Is(err, replay.ErrBodyWait):
			if err := g.bodyWait(p); err != nil {
				return engine.ReadyNone, err
			}
			return engine.ReadyClock, nil
		case errors.Is(err, replay.ErrSuspend):
			if err := g.waited(); err != nil {
				if errors.Is(err, errForked) {
					return g.forked.Poll(p)
				}
				return engine.ReadyNone, err
			}
			continue
		}
		g.Rested()
		return engine.Ready(r), err
	}
}

// WaitEvent takes an event, or waits for one until the timeout.
func (g *guest) WaitEvent(timeoutNs int64) (int64, error) {
	g.freezable = g.mod.CanThaw
	ready, err := g.Poll(engine.Poll{Events: true, HasClock: timeoutNs >= 0, TimeoutNs: timeoutNs})
	g.freezable = false
	switch {
	case err != nil || ready != engine.ReadyEvents:
		return 0, err
	case g.forked != nil: // the forked body answers
		return g.forked.NextEvent(), nil
	}
	return g.NextEvent(), nil
}

// longWait is the shortest wait for which a body gives up its place: shorter waits end before another guest has taken
// it.
const longWait = time.Millisecond

// bodyWait sleeps in real time. A waiting body computes nothing, so it gives up its place.
func (g *guest) bodyWait(p engine.Poll) error {
	if !p.HasClock {
		return errBodyDeadlock
	}
	d := time.Duration(p.TimeoutNs)
	if d < longWait || g.place == nil {
		return g.Untimed(func() error { return g.waitFor(d) })
	}
	return g.without(func() error { return g.waitFor(d) })
}

func (g *guest) waitFor(d time.Duration) error {
	t := clock.System().NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-g.ctx.Done():
		return context.Cause(g.ctx)
	}
}

// without calls do while the guest has no place but keeps its instance, and takes a place again before it returns.
func (g *guest) without(do func() error) error {
	if g.place == nil {
		return do()
	}
	g.place.StepOut(g.grown())
	err := do()
	g.Waited()
	if errors.Is(err, admission.ErrJournalsFull) { // it gives up its instance
		return err
	}
	if err2 := g.place.Enter(g.ctx, admission.Resuming, nil); err2 != nil {
		return errors.Join(err, context.Cause(g.ctx))
	}
	return err
}

// held estimates the bytes that the guest holds outside of its instance: output and results.
func (g *guest) held() int64 {
	out := g.Outcome()
	return g.Lines.Bytes() + int64(cap(out.Result)+cap(out.Failure))
}

// Stdin reads from the input.
func (g *guest) Stdin(p []byte) int {
	if !g.read {
		g.stdin, g.read = g.Input(), true
	}
	n := copy(p, g.stdin)
	g.stdin = g.stdin[n:]
	return n
}

// Fetch performs a request of a body or step function, which has no place meanwhile.
func (g *guest) Fetch(request []byte) ([]byte, int64) {
	if !g.InBody() {
		return nil, g.RefuseWithoutEntry(abi.Errorf(abi.NotHere, "fetch is for bodies and step functions"))
	}
	if g.r.cfg.Fetch == nil {
		return nil, g.RefuseWithoutEntry(abi.Errorf(abi.Denied, "this host performs no requests"))
	}
	var b []byte
	fetch := func() (err error) {
		b, err = g.r.cfg.Fetch(g.ctx, g.grants, g.key, request)
		return err
	}
	if err := g.without(fetch); err != nil {
		return nil, g.RefuseWithoutEntry(err)
	}
	return g.Answer(b)
}
