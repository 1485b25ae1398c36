// Package guest runs guests: workflows under the lease of their run, bodies and step functions for attempts, and replays
// that answer queries. It makes instances, answers the calls of guests by the replay machine, keeps them within their
// budgets, and bounds how many there are and what memory they hold.
package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/store"
)

// Config is what a Runner is made from.
type Config struct {
	Store  store.Store
	Engine engine.Engine
	Clock  clock.Clock
	Logger *slog.Logger
	Random func(p []byte)
	// Linger is how long an instance is kept while an attempt of one of its steps runs; 0 or less is not at all.
	Linger time.Duration
	// Instances is how many guests compute at a time, MemoryBytes what all of them hold, about, and ParkBytes what those
	// hold that wait for a commit or an attempt.
	Instances   int
	MemoryBytes int64
	ParkBytes   int64
	// Fuel bounds the instructions, about, that a workflow executes between two waits.
	Fuel int64
	// CPU bounds the time that they take. A machine that needs longer is at fault, not the workflow.
	CPU time.Duration
	// HostCalls bounds the calls between two waits.
	HostCalls int
	// Handled reports whether a handler is registered.
	Handled func(name string) bool
	// Fetch performs a request of a body or step function under the grants of its version; nil means that none is
	// performed. Request and answer are framed as the ABI says. An error that is an *abi.Error is the guest's.
	Fetch func(ctx context.Context, grants store.Grants, run store.RunKey, request []byte) ([]byte, error)
	// OnWait, if set, sees the memory of every instance whose workflow waits. Tests compare hashes with it.
	OnWait func(run store.RunKey, consumed uint64, hash func() [32]byte)
	// OnEnd, if set, is called with each activation that has ended, by its goroutine.
	OnEnd func(Report)
}

// Runner makes guests.
type Runner struct {
	cfg     Config
	modules modules
	room    *admission
	workers workers

	ctx    context.Context //nolint:containedctx // it ends with Close
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // of everything that runs a guest

	mu      sync.Mutex
	closed  bool
	drained chan struct{} // closed by Drain
}

// NewRunner returns a Runner. The caller closes it.
func NewRunner(cfg Config) *Runner {
	r := &Runner{cfg: cfg, drained: make(chan struct{}), room: newAdmission(cfg.Instances, cfg.MemoryBytes, cfg.ParkBytes)}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	return r
}

// ErrClosed says that the runner is closed.
var ErrClosed = errors.New("host is closed")

// begin counts something that runs a guest, which Close waits for until end is called.
func (r *Runner) begin() (end func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	r.wg.Add(1)
	return r.wg.Done, nil
}

// Drain makes no new activations from now on, and lets none go on that waits for a place. Guests that compute come to
// their next wait, and bodies to their end. Twice is legal.
func (r *Runner) Drain() {
	r.mu.Lock()
	select {
	case <-r.drained:
	default:
		close(r.drained)
	}
	r.mu.Unlock()
	r.room.refuseAll()
}

func (r *Runner) draining() bool {
	select {
	case <-r.quit():
		return true
	default:
		return false
	}
}

// Undrain takes Drain back.
func (r *Runner) Undrain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.drained:
		r.drained = make(chan struct{})
	default:
	}
}

// quit returns the channel that Drain closes.
func (r *Runner) quit() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drained
}

// EvictAll has all parked guests give their instances up.
func (r *Runner) EvictAll() { r.room.evictAll() }

// Close ends every guest at its next call, or within a slice of fuel, and returns when none is left.
func (r *Runner) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel(ErrClosed)
	r.room.refuseAll()
	r.wg.Wait()
	r.modules.close()
}

// Instances returns the number of instances that compute or are parked.
func (r *Runner) Instances() int { return r.room.instances() }

// budgetClock measures what guests compute and how long bodies take. It is the machine's clock even where the
// host runs in virtual time: a loop burns real time.
var budgetClock = clock.System()

var (
	errCalls = fmt.Errorf("the workflow made too many calls without waiting: the limit is %d", abi.MaxHostCalls)
	// errFuel ends a workflow that computes too long. The same journal ends it at the same instruction on every host.
	errFuel = errors.New("the workflow computed too long without waiting")
	// errSlow ends an activation that takes longer than its fuel should: the machine is at fault, not the workflow.
	errSlow = errors.New("the machine is too slow for the workflow, or stood still")
	// errForked says that the body for which the guest waits is executed in the guest's own instance.
	errForked = errors.New("forked")
	// errBodyDeadlock fails the attempt of a body that waits for nothing.
	errBodyDeadlock = errors.New("deadlock: every goroutine of the step's body is blocked for ever")
)

// guest is what activations, bodies and step instances have in common: an instance whose calls a machine answers,
// within its budgets. It is the engine.Host of the instance.
type guest struct {
	*replay.Machine // answers what needs nothing but the journal

	r    *Runner
	mod  *Module
	inst engine.Instance
	// wait waits until the machine's last call can be repeated, or says why it cannot. After errForked, it is forked
	// that answers the call.
	wait   func() error
	forked *guest
	// look, if set, is called at each call and slice of fuel of a workflow.
	look func() error
	// mayFork tells that the guest's instance may execute the bodies of its steps.
	mayFork bool
	log     func(n uint64, level int32, text string)
	logged  func(n uint64) bool // the line was stored before; nil = none was

	ctx      context.Context //nolint:containedctx // of the call that goes on
	key      store.RunKey    // of the run
	grants   store.Grants    // of bodies and step functions
	place    *place          // of a body, which gives it up while it waits
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

func (g *guest) init(r *Runner, mod *Module, run store.RunKey) {
	g.r, g.mod, g.key, g.limit = r, mod, run, r.cfg.CPU
	g.fuel = max((r.cfg.Fuel+engine.FuelSlice-1)/engine.FuelSlice, 1)
	g.log = func(uint64, int32, string) {}
}

// halt ends the guest at its next call, or when its slice of fuel is used up.
func (g *guest) halt(cause error) { g.halted.CompareAndSwap(nil, &cause) }

func (g *guest) stopped() error {
	if p := g.halted.Load(); p != nil {
		return *p
	}
	return nil
}

// call calls an export of an instance that is made for it. The guest is halted when ctx is done.
func (g *guest) call(ctx context.Context, export string) (int32, error) {
	defer context.AfterFunc(ctx, func() { g.halt(context.Cause(ctx)) })()
	inst, err := g.mod.compiled.Instantiate(ctx)
	if err != nil {
		return 0, err
	}
	defer g.release(inst)
	return g.callIn(ctx, inst, export)
}

// callIn calls an export of an instance.
func (g *guest) callIn(ctx context.Context, inst engine.Instance, export string) (int32, error) {
	g.ctx, g.inst = ctx, inst
	if g.mayFork {
		inst.AllowFork()
	}
	return inst.Call(ctx, export, g)
}

// release gives an instance back, and remembers what it held.
func (g *guest) release(inst engine.Instance) {
	g.mod.held(inst.Resident())
	inst.Release(context.Background())
}

// Refuel grants another slice of fuel, unless the guest has used all that there is between two waits. What it is
// granted depends on nothing but the instructions that it executes, and the bytes of its calls. What its journal has
// passed is free.
func (g *guest) Refuel() error {
	if err := g.stopped(); err != nil {
		return err
	}
	if g.look != nil {
		if err := g.look(); err != nil {
			return err
		}
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

// observer returns what shows the memory of an instance that waits; nil if nobody looks.
func (g *guest) observer() func(uint64) {
	if g.r.cfg.OnWait == nil {
		return nil
	}
	return func(consumed uint64) { g.r.cfg.OnWait(g.key, consumed, g.inst.Hash) }
}

// callsPerLook is how many calls a guest makes between two looks at the clock: a look takes about as long as a call.
const callsPerLook = 1000

// Enter counts a call, unless the guest's journal has passed it.
func (g *guest) Enter() error {
	if !g.Passed() {
		g.calls++
	}
	if g.calls > g.r.cfg.HostCalls {
		return errCalls
	}
	if g.looks++; g.looks%callsPerLook == 0 {
		if err := g.inTime(); err != nil {
			return err
		}
	}
	if g.look != nil {
		if err := g.look(); err != nil {
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
		if err := g.wait(); err != nil {
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
			if err := g.wait(); err != nil {
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

// longWait is how long a body waits at least to give its place up: a shorter wait is over before somebody else has the
// place.
const longWait = time.Millisecond

// bodyWait really waits. A body that waits computes nothing, so it has no place meanwhile.
func (g *guest) bodyWait(p engine.Poll) error {
	if !p.HasClock {
		return errBodyDeadlock
	}
	d := time.Duration(p.TimeoutNs)
	if d < longWait || g.place == nil {
		return g.waitFor(d)
	}
	return g.without(func() error { return g.waitFor(d) })
}

func (g *guest) waitFor(d time.Duration) error {
	t := budgetClock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-g.ctx.Done():
		return context.Cause(g.ctx)
	}
}

// without does something for which a body needs no place: it has one again when it goes on.
func (g *guest) without(do func() error) error {
	g.place.leave()
	err := do()
	if err2 := g.place.enter(g.ctx, resuming, nil); err2 != nil {
		return errors.Join(err, context.Cause(g.ctx))
	}
	return err
}

// Log keeps a line. What is over the limit of an activation is dropped; lines that a replay repeats do not count.
func (g *guest) Log(level int32, text []byte) int64 {
	n := g.lines
	g.lines++
	if g.logged != nil && g.logged(n) {
		return 0
	}
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
	perform := fetch
	if g.place != nil {
		perform = func() error { return g.without(fetch) }
	}
	if err := perform(); err != nil {
		return nil, g.RefuseWithoutEntry(err)
	}
	return g.Answer(b)
}
