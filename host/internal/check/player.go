package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/calls"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// player replays a run. It is the engine.Host of the guest's instance and answers from the journal.
type player struct {
	guest.Metered
	calls.Lines

	c      *Checker
	mod    *module.Module
	of     *run.Run
	inst   engine.Instance
	slices int64 // maximum of used; 0 means no limit
	used   int64 // slices of computing in the whole replay
	waits  bool  // the guest was stopped at a wait
	strict bool  // judgeEnd compares the end, too
	dumped bool  // the guest was asked for its stacks
	code   int32
	said   replay.Outcome // the machine's outcome when the guest returned code
	stdin  []byte
	read   bool
	report *guest.ReplayReport // nil if there is none
}

var _ engine.Host = (*player)(nil)

func newPlayer(c *Checker, mod *module.Module, of *run.Run) *player {
	p := &player{c: c, mod: mod, of: of}
	p.Command = mod.Command
	p.Limits = guest.Limits{CPU: c.cfg.MaxSegmentCPU, Calls: c.cfg.MaxHostCalls}
	p.Keep = func(uint64, int32, string) {}
	return p
}

// errNotBegun: the run has not begun, so there is nothing to replay.
var errNotBegun = errors.New("the run has not begun")

// perform replays the run. The caller sets the strictness in cfg; perform sets the rest.
func (p *player) perform(ctx context.Context, cfg replay.Config) error {
	j := p.of.Journal()
	startedMs, begun := j.StartedUnixMs()
	if !begun {
		return errNotBegun
	}
	entries := j.Entries()
	cfg.Mode, cfg.Started, cfg.Input, cfg.StartedUnixMs = replay.Check, j.Started(), entries[0].Input, startedMs
	cfg.Tail, cfg.BodiesEvent = run.Replayed(entries), p.mod.BodiesEvent
	if !cfg.Strict { // the limits between two waits do not apply; slices bounds the whole replay
		cfg.Rested = store.Seq(j.Len()) + 1
	}
	if see := p.c.cfg.OnWait; see != nil && cfg.Strict { // only Verify reports waits
		cfg.OnWait = func(consumed uint64) { see(p.of.Key(), j.Started().Iteration, consumed, p.inst.Hash) }
	}
	if rep := p.report; rep != nil && rep.Trace {
		cfg.OnWait = func(uint64) { rep.Wait(replay.At(p.Machine), p.inst.Hash()) }
	}
	p.Machine = replay.New(cfg)
	st := p.of.State()
	place := p.c.cfg.Guests.Place(p.mod, st.Run.Namespace, st.Workflow)
	if err := place.Enter(ctx, admission.Woken, nil); err != nil {
		return err
	}
	defer place.Leave()
	p.Slice = func() error {
		p.used++
		if p.slices > 0 && p.used > p.slices {
			return ErrTooLong
		}
		return place.Slice(ctx, 0, false)
	}
	defer context.AfterFunc(ctx, func() { p.Stop(context.Cause(ctx)) })()
	inst, err := p.mod.Instantiate(ctx)
	if err != nil {
		return err
	}
	defer p.mod.Release(inst)
	p.inst = inst
	if p.report != nil {
		defer func() { p.report.Memory = inst.Hash() }() // before the release
	}
	code, err := inst.Call(ctx, p.mod.Entry, p.host())
	if code != 0 && p.Outcome().Failed { // the guest has reported its failure itself
		err = nil
	}
	p.code, p.said = code, p.Outcome()
	if err == nil && code != 0 && !p.Outcome().Failed {
		p.Fail([]byte(fmt.Sprintf("it returned %d", code)))
	}
	return err
}

// sliceFuel is the fuel of a slice of computing.
const sliceFuel = guest.GrantsPerSlice * engine.FuelGrant

// slicesOf converts fuel to slices, rounding up; the result is at least 1.
func slicesOf(fuel int64) int64 { return max((fuel+sliceFuel-1)/sliceFuel, 1) }

// tell fills in the report, if there is one.
func (p *player) tell(err error) {
	if p.report == nil {
		return
	}
	p.report.Err = err
	if p.Machine != nil {
		out := p.Outcome()
		p.report.At, p.report.Result = replay.At(p.Machine), slices.Concat(out.Result, out.Failure, p.Printed())
	}
}

// maxNotes is the maximum of changed inputs in the notes. A run may have thousands.
const maxNotes = 10

// notes returns the differences that are no divergence.
func (p *player) notes() []string {
	if p.Machine == nil || len(p.Warnings) <= maxNotes {
		if p.Machine == nil {
			return nil
		}
		return p.Warnings
	}
	return append(p.Warnings[:maxNotes:maxNotes], fmt.Sprintf("and %d more", len(p.Warnings)-maxNotes))
}

// moves returns a note if the run would wake at another instant because a timer of the program itself has another duration.
// The journal records only the sleeps and time-outs that the guest requests from the host, so this is no divergence.
func (p *player) moves() []string {
	was, waits := p.of.Journal().Suspension()
	if !waits || !p.waits || p.Machine == nil || !was.PollDue {
		return nil
	}
	now := p.Suspension()
	if now.PollDue && now.PollDueUnixMs == was.PollDueUnixMs {
		return nil
	}
	to := "by no timer of its own"
	if now.PollDue {
		to = "at " + abi.TimeOf(now.PollDueUnixMs).Format(time.RFC3339Nano)
	}
	return []string{fmt.Sprintf("a timer of the program itself, such as time.Sleep, would wake it %s, and not at %s", to,
		abi.TimeOf(was.PollDueUnixMs).Format(time.RFC3339Nano))}
}

// Await takes the next delivery from the journal, or ends the replay if there is none.
func (p *player) Await(handles []int64) (int64, error) {
	h, err := p.Machine.Await(handles)
	p.came(err)
	return h, err
}

// Poll is Await for a guest that polls.
func (p *player) Poll(q engine.Poll) (engine.Ready, error) {
	poll := replay.PollRequest{Events: q.Events, HasClock: q.HasClock, TimeoutNs: q.TimeoutNs}
	r, err := p.Machine.Poll(poll)
	if p.came(err); p.waits && p.dump() {
		r, err = p.Machine.Poll(poll)
	}
	return engine.Ready(r), err
}

// came handles the result of a wait: it records that the guest was stopped at a wait, or resets the counters of the budget.
func (p *player) came(err error) {
	if errors.Is(err, replay.ErrSuspend) {
		p.waits = true
		return
	}
	p.Rested()
}

// WaitEvent waits for an event and takes it, or returns after the time-out.
func (p *player) WaitEvent(timeoutNs int64) (int64, error) {
	ready, err := p.Poll(engine.Poll{Events: true, HasClock: timeoutNs >= 0, TimeoutNs: timeoutNs})
	if err != nil || ready != engine.ReadyEvents {
		return 0, err
	}
	return p.NextEvent(), nil
}

// Stdin reads the input.
func (p *player) Stdin(b []byte) int {
	if !p.read {
		p.stdin, p.read = p.Input(), true
	}
	n := copy(b, p.stdin)
	p.stdin = p.stdin[n:]
	return n
}

// Fetch is refused: no body is executed.
func (p *player) Fetch([]byte) ([]byte, int64) {
	return nil, p.RefuseWithoutEntry(abi.Errorf(abi.NotHere, "fetch is for bodies and step functions"))
}
