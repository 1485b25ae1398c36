package sched

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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

var errCalls = fmt.Errorf("the workflow made too many calls in one activation: the limit is %d", abi.MaxHostCalls)

// guest is what activations, bodies and step instances have in common: an instance whose calls a machine
// answers, within its budgets. It is the engine.Host of the instance.
type guest struct {
	s       *Scheduler
	mod     *loadedModule
	machine *replay.Machine
	inst    engine.Instance
	// waitFn waits until the machine's last call can be repeated, or says why it cannot.
	waitFn func() error
	log    func(n uint64, level int32, text string)

	ctx      context.Context
	calls    int
	lines    uint64
	logBytes int
	stdin    []byte
	read     bool
	stdout   []byte
	partial  [2][]byte // of lines written to descriptors 1 and 2

	cpuMu   sync.Mutex
	cpuLeft time.Duration
	cpuFrom time.Time
	cpuStop func()
	stopCPU context.CancelCauseFunc
}

func (g *guest) init(s *Scheduler, mod *loadedModule) {
	g.s, g.mod, g.cpuLeft = s, mod, s.cfg.CPU
}

// call makes an instance and calls an export in it.
func (g *guest) call(ctx context.Context, export string) (int32, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g.cpuMu.Lock()
	g.stopCPU, g.ctx = cancel, ctx
	g.cpuMu.Unlock()
	inst, err := g.mod.compiled.Instantiate(ctx)
	if err != nil {
		return 0, err
	}
	defer inst.Release(ctx)
	g.inst = inst
	g.resumeCPU()
	defer g.pauseCPU()
	return inst.Call(ctx, export, g)
}

// resumeCPU starts the budget's clock, pauseCPU stops it while the guest waits.
func (g *guest) resumeCPU() {
	g.cpuMu.Lock()
	defer g.cpuMu.Unlock()
	g.cpuFrom = budgetClock.Now()
	t := budgetClock.NewTimer(g.cpuLeft)
	done := make(chan struct{})
	cancel := g.stopCPU
	go func() {
		select {
		case <-t.C():
			cancel(errBudget)
		case <-done:
		}
	}()
	g.cpuStop = func() { t.Stop(); close(done) }
}

func (g *guest) pauseCPU() {
	g.cpuMu.Lock()
	defer g.cpuMu.Unlock()
	if g.cpuStop != nil {
		g.cpuStop()
		g.cpuStop = nil
		g.cpuLeft -= budgetClock.Now().Sub(g.cpuFrom)
	}
}

// observer gives what shows the memory of an instance that waits; nil if nobody looks.
func (g *guest) observer() func(uint64) {
	if g.s.cfg.OnWait == nil {
		return nil
	}
	return func(consumed uint64) {
		g.s.cfg.OnWait(store.RunKey{ID: g.machine.RunID()}, consumed, g.inst.Hash)
	}
}

// Enter counts a call.
func (g *guest) Enter() error {
	if g.calls++; g.calls > g.s.cfg.HostCalls {
		return errCalls
	}
	return nil
}

func (g *guest) Input() []byte   { return g.machine.Input() }
func (g *guest) Info() []byte    { return g.machine.Info() }
func (g *guest) Now() int64      { return g.machine.Now() }
func (g *guest) Random(p []byte) { g.machine.Random(p) }
func (g *guest) Last() []byte    { return g.machine.Last() }
func (g *guest) WallNs() int64   { return g.machine.WallNs() }
func (g *guest) MonoNs() int64   { return g.machine.MonoNs() }

func (g *guest) Sleep(name string, ms int64) (int64, error) { return g.machine.Sleep(name, ms) }

func (g *guest) SleepUntil(name string, unixMs int64) (int64, error) {
	return g.machine.SleepUntil(name, unixMs)
}

func (g *guest) SleepText(name, text string) (int64, error) { return g.machine.SleepText(name, text) }

func (g *guest) Step(name, handler string, input, options []byte) (int64, error) {
	return g.machine.Step(name, handler, input, options)
}

func (g *guest) StepBegin(name string, options []byte) (int64, error) {
	return g.machine.StepBegin(name, options)
}

func (g *guest) StepEnd(ok int32, b []byte) error    { return g.machine.StepEnd(ok, b) }
func (g *guest) Result(handle int64) ([]byte, int64) { return g.machine.Result(handle) }
func (g *guest) Cancel(handle int64) (int64, error)  { return g.machine.Cancel(handle) }
func (g *guest) Complete(b []byte) int64             { return g.machine.Complete(b) }
func (g *guest) Fail(b []byte) int64                 { return g.machine.Fail(b) }
func (g *guest) NextEvent() int64                    { return g.machine.NextEvent() }

// Await waits for handles.
func (g *guest) Await(handles []int64) (int64, error) {
	for {
		h, err := g.machine.Await(handles)
		if !errors.Is(err, replay.ErrSuspend) {
			return h, err
		}
		if err := g.waitFn(); err != nil {
			return 0, err
		}
	}
}

// Poll waits for a clock or an event.
func (g *guest) Poll(p engine.Poll) (engine.Ready, error) {
	for {
		r, err := g.machine.Poll(replay.PollRequest{Events: p.Events, HasClock: p.HasClock, TimeoutNs: p.TimeoutNs})
		switch {
		case errors.Is(err, replay.ErrBodyWait):
			if err := g.bodyWait(p); err != nil {
				return engine.ReadyNone, err
			}
			return engine.ReadyClock, nil
		case errors.Is(err, replay.ErrSuspend):
			if err := g.waitFn(); err != nil {
				return engine.ReadyNone, err
			}
			continue
		}
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
	g.pauseCPU()
	defer g.resumeCPU()
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
	if fd == 1 && len(g.stdout) <= abi.MaxPayloadBytes {
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
		g.stdin, g.read = g.machine.Input(), true
	}
	n := copy(p, g.stdin)
	g.stdin = g.stdin[n:]
	return n
}

// notYetKinds are the entries that calls make which this host refuses for now.
var notYetKinds = map[string]store.Kind{
	abi.FnSignalWait: store.KindSignalWait, abi.FnSignalStart: store.KindSignalWait,
	abi.FnSignalSend: store.KindSignalSend, abi.FnChildRun: store.KindChild, abi.FnChildStart: store.KindChild,
	abi.FnHookStart: store.KindHook, abi.FnVersion: store.KindMarker, abi.FnEmit: store.KindEmit,
	abi.FnSetAttribute: store.KindAttribute, abi.FnCancelPolicy: store.KindCancelPolicy,
}

// NotYet refuses a function that this host does not offer.
func (g *guest) NotYet(function, name string) (int64, error) {
	if kind, ok := notYetKinds[function]; ok {
		return g.machine.NotYet(kind, function, name)
	}
	return g.machine.RefuseWithoutEntry(abi.Errorf(abi.Denied, "%s is not yet offered by this host", function)), nil
}
