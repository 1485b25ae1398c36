package wazero

import (
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
)

// errInit is the reason of a durable call in a start section or _initialize.
var errInit = &engine.Trap{Kind: engine.TrapInit,
	Message: "a workflow call in _initialize or the start section: these run once per module, not per run"}

// errInitWait is the reason of a wait there, which with Go is one for a timer of its own, too.
var errInitWait = &engine.Trap{Kind: engine.TrapInit,
	Message: "_initialize or the start section waits: no event comes there, and time stands still"}

// initHost answers the imports of the start section and of _initialize: time stands still at an instant that
// has nothing to do with any run, and random is a fixed sequence, so that memory is the same in every instance.
type initHost struct {
	ctx    context.Context //nolint:containedctx // of the call that makes the instance, which waits for it
	random uint64
	slices int
	worked int64 // bytes since the newest slice was counted
	calls  int
}

// maxInitSlices bounds what a start section and _initialize compute, the bytes of their calls included: a Go guest needs
// one or two slices.
const maxInitSlices = 200

// Refuel grants a bounded number of slices.
func (h *initHost) Refuel() error {
	if h.slices++; h.slices > maxInitSlices {
		return &engine.Trap{Kind: engine.TrapInit, Message: fmt.Sprintf("_initialize or the start section computes too long: "+
			"its fuel is %d instructions, and a byte of a call counts as one", maxInitSlices*engine.FuelSlice)}
	}
	return context.Cause(h.ctx)
}

// Work counts bytes like instructions.
func (h *initHost) Work(bytes int64) error {
	for h.worked += bytes; h.worked >= engine.FuelSlice; h.worked -= engine.FuelSlice {
		if err := h.Refuel(); err != nil {
			return err
		}
	}
	return nil
}

// Enter counts calls.
func (h *initHost) Enter() error {
	if h.calls++; h.calls > abi.MaxHostCalls {
		return &engine.Trap{Kind: engine.TrapInit, Message: fmt.Sprintf(
			"_initialize or the start section makes too many calls: the limit is %d", abi.MaxHostCalls)}
	}
	return nil
}

// initWallNs is 2026-01-01T00:00:00Z, initMonoNs one second: a monotonic zero kills Go's run-time.
const (
	initWallNs = 1767225600 * int64(1e9)
	initMonoNs = int64(1e9)
)

func (h *initHost) Input() []byte { return nil }
func (h *initHost) Info() []byte  { return []byte("{}") }
func (h *initHost) Now() int64    { return initWallNs / 1e6 }
func (h *initHost) Last() []byte  { return nil }

// Random is SplitMix64 (Steele, Lea, Flood 2014) from zero.
func (h *initHost) Random(p []byte) {
	for i := range p {
		h.random += 0x9e3779b97f4a7c15
		z := h.random
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		p[i] = byte(z >> 56)
	}
}

func (h *initHost) Sleep(string, int64) (int64, error)                 { return 0, errInit }
func (h *initHost) SleepUntil(string, int64) (int64, error)            { return 0, errInit }
func (h *initHost) SleepText(string, string) (int64, error)            { return 0, errInit }
func (h *initHost) Step(string, string, []byte, []byte) (int64, error) { return 0, errInit }
func (h *initHost) StepBegin(string, []byte) (int64, error)            { return 0, errInit }
func (h *initHost) StepEnd(int32, []byte) error                        { return errInit }
func (h *initHost) Await([]int64) (int64, error)                       { return 0, errInit }
func (h *initHost) Result(int64) ([]byte, int64)                       { return nil, 0 }
func (h *initHost) Cancel(int64) (int64, error)                        { return 0, errInit }
func (h *initHost) Complete([]byte) int64                              { return 0 }
func (h *initHost) Fail([]byte) int64                                  { return 0 }
func (h *initHost) Log(int32, []byte) int64                            { return 0 }
func (h *initHost) NextEvent() int64                                   { return 0 }
func (h *initHost) WaitEvent(int64) (int64, error)                     { return 0, errInitWait }
func (h *initHost) Signal(string, int64) (int64, error)                { return 0, errInit }
func (h *initHost) SignalSend(_, _, _ string, _ []byte) (int64, error) { return 0, errInit }
func (h *initHost) Child(_, _ string, _, _ []byte) (int64, error)      { return 0, errInit }
func (h *initHost) ChildID(int64) ([]byte, int64)                      { return nil, 0 }
func (h *initHost) Hook(_, _ string, _ []byte) (int64, error)          { return 0, errInit }
func (h *initHost) Emit(string, []byte) (int64, error)                 { return 0, errInit }
func (h *initHost) SetAttribute(string, []byte) (int64, error)         { return 0, errInit }
func (h *initHost) CancelPolicy(int32) (int64, error)                  { return 0, errInit }
func (h *initHost) Version(string, int64) (int64, error)               { return 0, errInit }
func (h *initHost) ContinueAsNew(_, _ []byte) error                    { return errInit }
func (h *initHost) QueryReply(int32, []byte) error                     { return errInit }
func (h *initHost) Fetch([]byte) ([]byte, int64)                       { return nil, abi.NotHere.Neg() }
func (h *initHost) WallNs() int64                                      { return initWallNs }
func (h *initHost) MonoNs() int64                                      { return initMonoNs }
func (h *initHost) Stdin([]byte) int                                   { return 0 }
func (h *initHost) Output(uint32, []byte)                              {}

// Poll answers a clock at once: nothing can be waited for here.
func (h *initHost) Poll(p engine.Poll) (engine.Ready, error) {
	if !p.HasClock {
		return engine.ReadyNone, errors.New("_initialize waits for something that cannot come")
	}
	return engine.ReadyClock, nil
}
