package sched

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/store"
)

// budgetClock measures what guests compute and how long bodies take. It is the machine's clock even where the
// host runs in virtual time: a loop burns real time.
var budgetClock = clock.System()

var errCalls = fmt.Errorf("the workflow made too many calls without waiting: the limit is %d", abi.MaxHostCalls)

// errFuel ends a workflow that computes too long. The same journal ends it at the same instruction on every host.
var errFuel = errors.New("the workflow computed too long without waiting")

// errSlow ends an activation that takes longer than its fuel should: the machine is at fault, not the workflow.
var errSlow = errors.New("the machine is too slow for the workflow, or stood still")

// guest is what activations, bodies and step instances have in common: an instance whose calls a machine
// answers, within its budgets. It is the engine.Host of the instance.
type guest struct {
	*replay.Machine // answers what needs nothing but the journal

	s    *Scheduler
	mod  *loadedModule
	inst engine.Instance
	// waitFn waits until the machine's last call can be repeated, or says why it cannot. After errForked, it is forked
	// that answers the call.
	waitFn func() error
	forked *guest
	// mayFork tells that the guest's instance may execute the bodies of its steps.
	mayFork bool
	log     func(n uint64, level int32, text string)

	ctx      context.Context
	grants   store.Grants // of bodies and step functions
	calls    int
	lines    uint64
	logBytes int
	stdin    []byte
	read     bool
	stdout   []byte
	partial  [2][]byte // of lines written to descriptors 1 and 2

	halted  atomic.Pointer[error]
	taken   uint64 // deliveries, as of the wait after which calls and slices are counted
	slices  int64  // of fuel
	worked  int64  // bytes of calls since the newest slice was counted
	fuel    int64  // how many slices there are between two waits; 0 = no limit
	limit   time.Duration
	looks   int       // at the clock that were not made, one for each call
	segment time.Time // when the clock was first looked at since the guest last waited
}

func (g *guest) init(s *Scheduler, mod *loadedModule) {
	g.s, g.mod, g.limit = s, mod, s.cfg.CPU
	g.fuel = max((s.cfg.Fuel+engine.FuelSlice-1)/engine.FuelSlice, 1)
}

// halt ends the guest at its next call, or when its slice of fuel is used up.
func (g *guest) halt(cause error) { g.halted.CompareAndSwap(nil, &cause) }

func (g *guest) stopped() error {
	if p := g.halted.Load(); p != nil {
		return *p
	}
	return nil
}

// call makes an instance and calls an export in it.
func (g *guest) call(ctx context.Context, export string) (int32, error) {
	if ctx != g.s.ctx { // else the owner is stopped, and halts its activation
		defer context.AfterFunc(ctx, func() { g.halt(context.Cause(ctx)) })()
	}
	g.ctx = ctx
	inst, err := g.mod.compiled.Instantiate(ctx)
	if err != nil {
		return 0, err
	}
	defer inst.Release(ctx)
	g.inst = inst
	if g.mayFork {
		inst.AllowFork()
	}
	return inst.Call(ctx, export, g)
}

// Refuel grants another slice of fuel, unless the guest has used all that there is between two waits. What it is
// granted depends on nothing but the instructions that it executes, and the bytes of its calls. What its journal has
// passed is free.
func (g *guest) Refuel() error {
	if err := g.stopped(); err != nil {
		return err
	}
	if !g.Passed() {
		g.slices++
	}
	if g.fuel > 0 && g.slices > g.fuel {
		return errFuel
	}
	return g.inTime()
}

// Work counts the bytes of a call like instructions.
func (g *guest) Work(bytes int64) error {
	for g.worked += bytes; g.worked >= engine.FuelSlice; g.worked -= engine.FuelSlice {
		if err := g.Refuel(); err != nil {
			return err
		}
	}
	return g.stopped()
}

// inTime returns errSlow if the guest has taken too long since it last waited.
func (g *guest) inTime() error {
	now := budgetClock.Now()
	if g.segment.IsZero() {
		g.segment = now
	}
	if now.Sub(g.segment) > g.limit {
		return errSlow
	}
	return nil
}

// rested begins to count anew when the guest has waited.
func (g *guest) rested() {
	if c := g.Consumed(); c != g.taken {
		g.taken, g.calls, g.slices, g.worked, g.segment = c, 0, 0, 0, time.Time{}
	}
}

// observer gives what shows the memory of an instance that waits; nil if nobody looks.
func (g *guest) observer() func(uint64) {
	if g.s.cfg.OnWait == nil {
		return nil
	}
	return func(consumed uint64) {
		g.s.cfg.OnWait(store.RunKey{ID: g.RunID()}, consumed, g.inst.Hash)
	}
}

// callsPerLook is how many calls a guest makes between two looks at the clock: a look takes about as long as a call.
const callsPerLook = 1000

// Enter counts a call, unless the guest's journal has passed it.
func (g *guest) Enter() error {
	if !g.Passed() {
		g.calls++
	}
	if g.calls > g.s.cfg.HostCalls {
		return errCalls
	}
	if g.looks++; g.looks%callsPerLook == 0 {
		if err := g.inTime(); err != nil {
			return err
		}
	}
	return g.stopped()
}

// Await waits for handles.
func (g *guest) Await(handles []int64) (int64, error) {
	for {
		h, err := g.Machine.Await(handles)
		if err != replay.ErrSuspend { //nolint:errorlint // it is never wrapped, and this is the hottest path
			g.rested()
			return h, err
		}
		if err := g.waitFn(); err != nil {
			if errors.Is(err, errForked) {
				return g.forked.Await(handles)
			}
			return 0, err
		}
	}
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
			if err := g.waitFn(); err != nil {
				if errors.Is(err, errForked) {
					return g.forked.Poll(p)
				}
				return engine.ReadyNone, err
			}
			continue
		}
		g.rested()
		return engine.Ready(r), err
	}
}

// errBodyDeadlock fails the attempt of a body that waits for nothing.
var errBodyDeadlock = errors.New("deadlock: every goroutine of the step's body is blocked for ever")

// bodyWait really waits.
func (g *guest) bodyWait(p engine.Poll) error {
	if !p.HasClock {
		return errBodyDeadlock
	}
	t := budgetClock.NewTimer(time.Duration(p.TimeoutNs))
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-g.ctx.Done():
		return context.Cause(g.ctx)
	}
}

// Log keeps a line. What is over the limit of an activation is dropped.
func (g *guest) Log(level int32, text []byte) int64 {
	n := g.lines
	g.lines++
	if g.logBytes += len(text) + 1; g.logBytes > abi.MaxLogBytes {
		return 0
	}
	g.log(n, min(max(level, abi.LogDebug), abi.LogError), strings.ToValidUTF8(string(text), "�"))
	return 0
}

// Output takes what the guest prints: whole lines go to the log, and descriptor 1 is the result of a command.
func (g *guest) Output(fd uint32, p []byte) {
	if fd == 1 && g.mod.command && len(g.stdout) <= abi.MaxPayloadBytes {
		g.stdout = append(g.stdout, p...)
	}
	part := &g.partial[fd-1]
	*part = append(*part, p...)
	for {
		line, rest, ok := bytes.Cut(*part, []byte{'\n'})
		if !ok && len(*part) < abi.MaxLogBytes {
			return
		}
		g.Log(outputLevel(fd), line)
		*part = rest
	}
}

// held returns about what the guest holds outside of its instance, in bytes: what it printed and handed over.
func (g *guest) held() int64 {
	out := g.Outcome()
	return int64(cap(g.stdout) + cap(g.partial[0]) + cap(g.partial[1]) + cap(out.Result) + cap(out.Failure))
}

func outputLevel(fd uint32) int32 {
	if fd == 2 {
		return abi.LogWarn
	}
	return abi.LogInfo
}

// flushOutput logs the last line of what the guest printed, if it has no end.
func (g *guest) flushOutput() {
	for i := range g.partial {
		if len(g.partial[i]) > 0 {
			g.Log(outputLevel(uint32(i+1)), g.partial[i])
			g.partial[i] = nil
		}
	}
}

// Stdin reads the input.
func (g *guest) Stdin(p []byte) int {
	if !g.read {
		g.stdin, g.read = g.Input(), true
	}
	n := copy(p, g.stdin)
	g.stdin = g.stdin[n:]
	return n
}

// Fetch performs a request of a body or step function.
func (g *guest) Fetch(request []byte) ([]byte, int64) {
	if !g.InBody() {
		return nil, g.RefuseWithoutEntry(abi.Errorf(abi.NotHere, "fetch is for bodies and step functions"))
	}
	if g.s.cfg.Fetch == nil {
		return nil, g.RefuseWithoutEntry(abi.Errorf(abi.Denied, "this host performs no requests"))
	}
	b, err := g.s.cfg.Fetch(g.ctx, g.grants, g.RunID(), request)
	if err != nil {
		return nil, g.RefuseWithoutEntry(err)
	}
	return g.Answer(b)
}
