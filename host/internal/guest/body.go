package guest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/traceid"
	"github.com/wfhost/wfhost/store"
)

// newStepGuest makes a guest for a step function, or for the description of a module, outside of any run.
func (r *Runner) newStepGuest(m *module.Module, started journal.Started, key store.RunKey, input []byte,
	info *replay.StepInfo) *guest {
	g := &guest{}
	g.init(r, m, key)
	g.wait = func() error { return errBodyDeadlock }
	g.Machine = replay.New(replay.Config{Mode: replay.StepFn, Started: started, Input: input, Step: info,
		RealTime: clock.RealTime(r.cfg.Clock), RealRandom: RealRandom})
	return g
}

// attempt is an attempt performed by a guest.
type attempt struct {
	*run.Attempt
	r      *Runner
	events Events
}

// Perform executes the body of a step on a copy of the workflow, or a step function in its own instance, and returns
// the outcome. ctx must end when no run waits for the attempt any more; a workflow's cancel does not reach a guest. Perform calls
// taken when the attempt has an instance, and no longer waits for one.
func (r *Runner) Perform(ctx context.Context, a *run.Attempt, events Events, taken func()) run.StepOutcome {
	ctx, end, err := r.Begin(ctx)
	if err != nil {
		return run.StepOutcome{Abandoned: true}
	}
	defer end()
	x := attempt{a, r, events}
	mod, err := r.modules.GetPatiently(ctx, a.Run.Module)
	if ctx.Err() != nil {
		return run.StepOutcome{Abandoned: true}
	}
	if err != nil {
		return run.StepFailure(abi.KindError, err.Error(), true)
	}
	p := r.admission.NewPlace(mod.Resident()).Of(uint32(a.Run.Run.Namespace), a.Run.Workflow, a.Run.Run.ID)
	if err := p.EnterBody(ctx); err != nil {
		return run.StepOutcome{Abandoned: true}
	}
	defer p.Leave()
	taken()
	ctx, stop := x.limit(ctx)
	defer stop()
	g, info, err := x.newGuest(ctx, mod)
	if err != nil {
		return run.StepFailure(abi.KindError, err.Error(), true)
	}
	g.place = p
	export := abi.ExportStep
	if a.Target == "" {
		export = mod.Entry
		g.Machine = replay.New(x.asBody(g, mod, info))
		g.wait = x.waitsForAnother
	}
	code, err := g.call(ctx, export)
	g.Flush()
	return x.outcome(ctx, g, code, err)
}

// limit returns a context that also ends at the step's timeout, which is real time, like a body's clock.
func (a attempt) limit(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(traceid.With(ctx, a.Span()))
	timeout := time.Duration(a.Options.TimeoutMs) * time.Millisecond
	stop := clock.AfterFunc(clock.System(), timeout, func() { cancel(run.ErrStepTimeout) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// newGuest makes the guest for a body or step function. Its time starts now: the attempt may have queued since it was
// started.
func (a attempt) newGuest(ctx context.Context, mod *module.Module) (*guest, *replay.StepInfo, error) {
	info := &replay.StepInfo{Name: a.Name, Handler: a.Target, Attempt: a.Number, Attempts: a.Options.Attempts,
		IdempotencyKey: a.Key(), LastError: a.Last, DeadlineMs: a.r.cfg.Clock.Now().UnixMilli() + a.Options.TimeoutMs}
	g := a.r.newStepGuest(mod, a.Started, a.Run.Run, a.Input, info)
	g.Limits.Grants, g.Limits.CPU = 0, time.Duration(a.Options.TimeoutMs)*time.Millisecond // the timeout is real time
	g.Keep = a.logLine
	var err error
	g.grants, err = a.r.modules.Grants(ctx, a.Run.Run.Namespace, a.Run.Workflow, a.Run.Version)
	return g, info, err
}

func (a attempt) waitsForAnother() error {
	return fmt.Errorf("the workflow waits, but not for the body of step %q", a.Name)
}

// asBody returns the machine's configuration for a copy of the workflow at its latest suspension.
func (a attempt) asBody(g *guest, mod *module.Module, info *replay.StepInfo) replay.Config {
	var began atomic.Pointer[func() (int64, int64)]
	return replay.Config{Mode: replay.Body, Started: a.Started, Input: a.Entries[0].Input,
		StartedUnixMs: a.StartedMs, Tail: run.Replayed(a.Entries), Until: a.Until.Seq, Rested: a.Until.Seq, Handle: a.Handle,
		BodiesEvent: mod.BodiesEvent, OnWait: g.observer(a.Started.Iteration), Step: info, RealRandom: RealRandom,
		RealTime: func() (int64, int64) {
			if began.Load() == nil { // the clock starts with the body, not with its replay
				f := clock.RealTime(a.r.cfg.Clock)
				began.Store(&f)
			}
			return (*began.Load())()
		}}
}

// outcome returns the outcome of a body or step function.
func (a attempt) outcome(ctx context.Context, g *guest, code int32, err error) run.StepOutcome {
	out := g.Outcome()
	var trap *engine.Trap
	switch {
	case errors.Is(err, replay.ErrBodyEnd) && out.BodyOK:
		return run.StepOutcome{Data: out.Body, Bytes: out.BodyBytes}
	case errors.Is(err, replay.ErrBodyEnd):
		return run.ReportedOutcome(out.Body)
	case errors.Is(context.Cause(ctx), run.ErrStepTimeout) || errors.Is(err, ErrSlow):
		return run.StepTimeout(time.Duration(a.Options.TimeoutMs) * time.Millisecond)
	case ctx.Err() != nil:
		return run.StepOutcome{Abandoned: true}
	case errors.As(err, &trap):
		out := run.StepFailure(trap.Failure(), trap.Message, true)
		out.Err.Details = stack(trap)
		return out
	case err != nil:
		return run.StepFailure(abi.KindError, err.Error(), true)
	case a.Target == "" && g.InBody():
		return run.StepFailure(abi.KindTrap, g.Explain(fmt.Sprintf("the body called proc_exit(%d)", code)), true)
	case a.Target == "":
		return run.StepFailure(abi.KindError, "the workflow returned without executing the body", true)
	case code != 0:
		return run.ReportedOutcome(out.Failure)
	}
	return run.StepOutcome{Data: out.Result, Bytes: out.ResultBytes}
}

// logLine sends a line of a body or step function to the writer, which stores it with the run's next commit.
func (a attempt) logLine(_ uint64, level int32, text string) {
	a.events.Inside(a.Run.Run, run.AttemptLogs{Attempt: a.Attempt, Line: store.LogLine{
		UnixMs: a.r.cfg.Clock.Now().UnixMilli(), Level: int8(level), Step: a.Name, Attempt: a.Number, Text: text}})
}
