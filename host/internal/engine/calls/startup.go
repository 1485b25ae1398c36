// During the start section and _initialize, the clock stands still at an instant unrelated to any run, and random
// numbers are a fixed sequence, so that memory is the same in every instance.

package calls

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
)

// errInit refuses a durable call in the start section or _initialize.
var errInit = &engine.Trap{Kind: engine.TrapInit,
	Message: "a workflow call in _initialize or the start section: these run once per module, not per run"}

// errInitWait refuses a wait there. A Go guest also waits for its own timers.
var errInitWait = &engine.Trap{Kind: engine.TrapInit,
	Message: "_initialize or the start section waits: no event comes there, and time stands still"}

// StartHost is the engine.Host of one start-up. Its answers depend only on the module.
type StartHost struct {
	ctx    context.Context //nolint:containedctx // of the call that makes the instance, which waits for it
	random uint64
	most   int // maximal number of fuel grants
	grants int
	worked int64 // bytes since they were last converted to a grant
	alone  int64 // bytes since the last yield to other goroutines
	calls  int
	Tail
	nameless
}

// nameless answers Program, since the workflow that will run is not known at start-up.
type nameless struct{}

// Program returns no argument.
func (nameless) Program() string { return "" }

// NewStartHost returns the host of a start-up. It stops the guest with the cause of ctx's end.
func NewStartHost(ctx context.Context) *StartHost {
	h := &StartHost{ctx: ctx, most: MaxGrants * leniency}
	if ctx.Value(admission{}) != nil {
		h.most = MaxGrants
	}
	return h
}

// MaxGrants bounds the fuel grants of the start section and _initialize together, bytes of their calls included: a
// tenth of what a workflow may use. A Go guest needs a few.
const MaxGrants = abi.MaxFuel / 10 / engine.FuelGrant

// leniency multiplies MaxGrants for modules that were admitted earlier, perhaps by a release that charged less for
// the same work: runs depend on them. Their start-up takes no longer than it did then.
const leniency = 128

// admission marks the context in which a new module is admitted.
type admission struct{}

// Admitting returns a context in which start-ups are limited to MaxGrants, for modules that no run depends on yet.
func Admitting(ctx context.Context) context.Context { return context.WithValue(ctx, admission{}, true) }

// letOthers yields the processor to other goroutines. Tests replace it.
var letOthers = runtime.Gosched

// callsAlone and bytesAlone are after how many calls, and how many bytes of calls, a start-up yields: each is some
// fifty microseconds of work. No run waits for a start-up, it may make calls for a second, and Go would preempt it
// only after ten milliseconds.
const (
	callsAlone = 64
	bytesAlone = 64 << 10
)

// Refuel grants fuel at most h.most times.
func (h *StartHost) Refuel() error {
	h.grants++
	if h.grants > h.most {
		return &engine.Trap{Kind: engine.TrapInit, Message: fmt.Sprintf("_initialize or the start section computes too long: "+
			"its fuel is %d units, each about a nanosecond or a byte of a call", h.most*engine.FuelGrant)}
	}
	letOthers()
	return context.Cause(h.ctx)
}

// Work charges bytes as fuel.
func (h *StartHost) Work(bytes int64) error {
	h.alone += bytes
	if h.alone >= bytesAlone {
		h.alone = 0
		letOthers()
	}
	for h.worked += bytes; h.worked >= engine.FuelGrant; h.worked -= engine.FuelGrant {
		if err := h.Refuel(); err != nil {
			return err
		}
	}
	return nil
}

// Enter limits the number of calls.
func (h *StartHost) Enter() error {
	h.calls++
	if h.calls > abi.MaxHostCalls {
		return &engine.Trap{Kind: engine.TrapInit, Message: fmt.Sprintf(
			"_initialize or the start section makes too many calls: the limit is %d", abi.MaxHostCalls)}
	}
	if h.calls%callsAlone == 0 {
		letOthers()
	}
	return nil
}

// initWallNs is 2026-01-01T00:00:00Z. initMonoNs is one second, because Go's runtime crashes on a monotonic zero.
const (
	initWallNs = 1767225600 * int64(1e9)
	initMonoNs = int64(1e9)
)

func (h *StartHost) Input() []byte { return nil }
func (h *StartHost) Info() []byte  { return []byte("{}") }
func (h *StartHost) Now() int64    { return initWallNs / 1e6 }
func (h *StartHost) Last() []byte  { return nil }

// Random is SplitMix64 (Steele, Lea, Flood 2014) from zero.
func (h *StartHost) Random(p []byte) {
	for i := range p {
		h.random += 0x9e3779b97f4a7c15
		z := h.random
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		p[i] = byte(z >> 56)
	}
}

func (h *StartHost) Sleep(string, int64) (int64, error)                 { return 0, errInit }
func (h *StartHost) SleepUntil(string, int64) (int64, error)            { return 0, errInit }
func (h *StartHost) SleepText(string, string) (int64, error)            { return 0, errInit }
func (h *StartHost) Step(string, string, []byte, []byte) (int64, error) { return 0, errInit }
func (h *StartHost) StepBegin(string, []byte) (int64, error)            { return 0, errInit }
func (h *StartHost) StepEnd(int32, []byte) error                        { return errInit }
func (h *StartHost) Await([]int64) (int64, error)                       { return 0, errInit }
func (h *StartHost) Result(int64) ([]byte, int64)                       { return nil, 0 }
func (h *StartHost) Cancel(int64) (int64, error)                        { return 0, errInit }
func (h *StartHost) Complete([]byte) int64                              { return 0 }
func (h *StartHost) Fail([]byte) int64                                  { return 0 }
func (h *StartHost) NextEvent() int64                                   { return 0 }
func (h *StartHost) WaitEvent(int64) (int64, error)                     { return 0, errInitWait }
func (h *StartHost) Signal(string, int64) (int64, error)                { return 0, errInit }
func (h *StartHost) SignalSend(_, _, _ string, _ []byte) (int64, error) { return 0, errInit }
func (h *StartHost) Child(_, _ string, _, _ []byte) (int64, error)      { return 0, errInit }
func (h *StartHost) ChildID(int64) ([]byte, int64)                      { return nil, 0 }
func (h *StartHost) Hook(_, _ string, _ []byte) (int64, error)          { return 0, errInit }
func (h *StartHost) Emit(string, []byte) (int64, error)                 { return 0, errInit }
func (h *StartHost) SetAttribute(string, []byte) (int64, error)         { return 0, errInit }
func (h *StartHost) CancelPolicy(int32) (int64, error)                  { return 0, errInit }
func (h *StartHost) Version(string, int64) (int64, error)               { return 0, errInit }
func (h *StartHost) ContinueAsNew(_, _ []byte) error                    { return errInit }
func (h *StartHost) Reply(int64, int32, []byte) (int64, error)          { return 0, errInit }
func (h *StartHost) Fetch([]byte) ([]byte, int64)                       { return nil, abi.NotHere.Neg() }
func (h *StartHost) WallNs() int64                                      { return initWallNs }
func (h *StartHost) MonoNs() int64                                      { return initMonoNs }
func (h *StartHost) Stdin([]byte) int                                   { return 0 }

// Log keeps warnings and errors as if they were printed to descriptor 2, because no run has a log yet.
func (h *StartHost) Log(level int32, text []byte) int64 {
	if level >= abi.LogWarn {
		h.Write(append(text, '\n'))
	}
	return 0
}

// Output keeps the end of what is printed to descriptor 2.
func (h *StartHost) Output(fd uint32, p []byte) {
	if fd == Stderr {
		h.Write(p)
	}
}

// Poll answers a clock at once: a start-up cannot wait.
func (h *StartHost) Poll(p engine.Poll) (engine.Ready, error) {
	if !p.HasClock {
		return engine.ReadyNone, errors.New("_initialize waits for something that cannot come")
	}
	return engine.ReadyClock, nil
}
