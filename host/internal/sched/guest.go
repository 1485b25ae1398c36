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
	*replay.Machine // answers what needs nothing but the journal

	s    *Scheduler
	mod  *loadedModule
	inst engine.Instance
	// waitFn waits until the machine's last call can be repeated, or says why it cannot.
	waitFn func() error
	log    func(n uint64, level int32, text string)

	ctx      context.Context
	grants   store.Grants // of bodies and step functions
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
		g.s.cfg.OnWait(store.RunKey{ID: g.RunID()}, consumed, g.inst.Hash)
	}
}

// Enter counts a call.
func (g *guest) Enter() error {
	if g.calls++; g.calls > g.s.cfg.HostCalls {
		return errCalls
	}
	return nil
}

// Await waits for handles.
func (g *guest) Await(handles []int64) (int64, error) {
	for {
		h, err := g.Machine.Await(handles)
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
		r, err := g.Machine.Poll(replay.PollRequest{Events: p.Events, HasClock: p.HasClock, TimeoutNs: p.TimeoutNs})
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
