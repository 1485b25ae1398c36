// Package calls answers the calls of guests for every engine: it reads arguments from the guest's memory, calls the
// Host, and writes the answer into that memory. It knows the shapes of the ABI (pointers, lengths, WASI structures).
package calls

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
)

// Memory is the linear memory of a guest.
type Memory interface {
	// Read returns n bytes of the memory, not a copy, valid until the guest continues; false if any of them is out of
	// bounds.
	Read(offset, n uint32) ([]byte, bool)
	Size() uint32 // in bytes
}

// Guest controls the guest during a call.
type Guest interface {
	// Halt stops the guest for a reason. It does not return.
	Halt(reason error)
	// Freezes notes that the guest must return from its entry point. It returns false if the guest cannot be frozen.
	Freezes() bool
}

// Frame is one call, with one argument in each slot of the stack.
type Frame struct {
	Guest  Guest
	Host   engine.Host
	Memory Memory
	Stack  []uint64
}

// Func answers a call and returns its result, if the function has one.
type Func func(f *Frame) uint64

// Functions returns the implementation of each import, by module and name: all functions of the ABI, of WASI and of
// AssemblyScript's env.
func Functions() (map[string]map[string]Func, error) {
	all := map[string]map[string]Func{
		abi.ImportModule: workflowFuncs(), abi.WASIModule: wasiFuncs(), abi.EnvModule: envFuncs(),
	}
	for module, table := range Signatures() {
		for name := range table {
			if all[module][name] == nil {
				return nil, fmt.Errorf("%s.%s has no implementation", module, name)
			}
		}
	}
	return all, nil
}

// Signatures returns the types of these functions.
func Signatures() map[string]map[string]abi.Signature {
	return map[string]map[string]abi.Signature{
		abi.ImportModule: abi.Functions, abi.WASIModule: abi.WASIFunctions, abi.EnvModule: abi.EnvFunctions,
	}
}

// u32 returns an i32 argument. The upper half of its slot is undefined.
func (f *Frame) u32(i int) uint32 { return uint32(f.Stack[i]) }

func (f *Frame) i64(i int) int64 { return int64(f.Stack[i]) }

// outOfBounds stops the guest with a trap, because it passed an address outside of its memory.
func (f *Frame) outOfBounds(ptr, n uint32) {
	f.Guest.Halt(&engine.Trap{Kind: engine.TrapGuest, Message: fmt.Sprintf(
		"a call was given %d bytes at address %d, outside of the memory of %d bytes", n, ptr, f.Memory.Size())})
}

// view returns a part of the guest's memory, not a copy; it must not be kept after the call. If n is 0, any address
// is valid.
func (f *Frame) view(ptr, n uint32) []byte {
	if n == 0 {
		return nil
	}
	b, ok := f.Memory.Read(ptr, n)
	if !ok {
		f.outOfBounds(ptr, n)
	}
	return b
}

// portion is how many bytes a call processes between two charges, each of which may stop the guest: some
// microseconds.
const portion = 64 << 10

// work charges the guest for bytes before the call processes them, or stops the guest.
func (f *Frame) work(n int) {
	if err := f.Host.Work(int64(n)); err != nil {
		f.Guest.Halt(err)
	}
}

// portions calls visit for each portion of b, after charging the guest for it, until visit returns false. It reports
// whether it visited all of b.
func (f *Frame) portions(b []byte, visit func(b []byte) bool) bool {
	for p := range slices.Chunk(b, portion) {
		f.work(len(p))
		if !visit(p) {
			return false
		}
	}
	return true
}

// random fills the buffer given by the first two arguments.
func (f *Frame) random() {
	f.portions(f.view(f.u32(0), f.u32(1)), func(b []byte) bool {
		f.Host.Random(b)
		return true
	})
}

// maxCopyBytes bounds the bytes of one argument that are copied and charged: slightly more than every limit.
const maxCopyBytes = abi.MaxPayloadBytes + 1

// bytes copies an argument from the guest's memory. An argument over the payload limit is not copied but aliases the
// memory during the call: the host refuses it and reports its size, or copies of it what it needs.
func (f *Frame) bytes(i int) []byte {
	b := f.view(f.u32(i), f.u32(i+1))
	f.work(min(len(b), maxCopyBytes))
	if len(b) > abi.MaxPayloadBytes {
		return b
	}
	return append([]byte(nil), b...)
}

// peek returns an argument within the guest's memory, valid during the call. A replay repeats many log lines, and
// copying them would produce a gigabyte of garbage per second.
func (f *Frame) peek(i int) []byte {
	b := f.view(f.u32(i), f.u32(i+1))
	n := min(len(b), maxCopyBytes)
	f.work(n)
	return b[:n:n]
}

// maxTextBytes bounds names and other short texts in the same way.
const maxTextBytes = abi.MaxNameBytes + 1

func (f *Frame) text(i int) string {
	b := f.view(f.u32(i), f.u32(i+1))
	return string(b[:min(len(b), maxTextBytes)])
}

// out writes an answer into the guest's buffer, truncated to it, and returns the full length of the answer.
func (f *Frame) out(i int, b []byte) uint64 {
	ptr, n := f.u32(i), f.u32(i+1)
	f.work(min(int(n), len(b)))
	copy(f.view(ptr, n), b)
	return uint64(len(b))
}

// done returns the answer of a call, or stops the guest.
func (f *Frame) done(v int64, err error) uint64 {
	if err != nil {
		f.Guest.Halt(err)
	}
	return uint64(v)
}

// block completes the blocking form of a call: it awaits the handle and writes its result.
func (f *Frame) block(handle int64, err error, out int) uint64 {
	if err != nil || handle < 0 {
		return f.done(handle, err)
	}
	got, err := f.Host.Await([]int64{handle})
	if err != nil || got < 0 {
		return f.done(got, err)
	}
	b, n := f.Host.Result(handle)
	switch {
	case n < 0:
		return uint64(n)
	case out < 0:
		return 0
	}
	return f.out(out, b)
}

func (f *Frame) await() uint64 {
	ptr, n := f.u32(0), f.u32(1)
	if n > abi.MaxAwaitHandles+1 {
		n = abi.MaxAwaitHandles + 1 // too many: the host refuses the call
	}
	b := f.view(ptr, n*8)
	f.work(len(b))
	var handles []int64
	for ; len(b) > 0; b = b[8:] {
		handles = append(handles, int64(binary.LittleEndian.Uint64(b)))
	}
	return f.done(f.Host.Await(handles))
}

func workflowFuncs() map[string]Func {
	m := map[string]Func{
		abi.FnInput: func(f *Frame) uint64 { return f.out(0, f.Host.Input()) },
		abi.FnInfo: func(f *Frame) uint64 {
			b := f.Host.Info()
			f.work(len(b)) // it is built for each call
			return f.out(0, b)
		},
		abi.FnLast:            func(f *Frame) uint64 { return f.out(0, f.Host.Last()) },
		abi.FnNow:             func(f *Frame) uint64 { return uint64(f.Host.Now()) },
		abi.FnRandom:          func(f *Frame) uint64 { f.random(); return 0 },
		abi.FnSleepStart:      func(f *Frame) uint64 { return f.done(f.Host.Sleep(f.text(0), f.i64(2))) },
		abi.FnSleepUntilStart: func(f *Frame) uint64 { return f.done(f.Host.SleepUntil(f.text(0), f.i64(2))) },
		abi.FnSleepTextStart:  func(f *Frame) uint64 { return f.done(f.Host.SleepText(f.text(0), f.text(2))) },
		abi.FnSleep: func(f *Frame) uint64 {
			h, err := f.Host.Sleep(f.text(0), f.i64(2))
			return f.block(h, err, -1)
		},
		abi.FnSleepUntil: func(f *Frame) uint64 {
			h, err := f.Host.SleepUntil(f.text(0), f.i64(2))
			return f.block(h, err, -1)
		},
		abi.FnSleepText: func(f *Frame) uint64 {
			h, err := f.Host.SleepText(f.text(0), f.text(2))
			return f.block(h, err, -1)
		},
		abi.FnStepStart: func(f *Frame) uint64 {
			return f.done(f.Host.Step(f.text(0), f.text(2), f.bytes(4), f.bytes(6)))
		},
		abi.FnStepDo: func(f *Frame) uint64 {
			h, err := f.Host.Step(f.text(0), f.text(2), f.bytes(4), f.bytes(6))
			return f.block(h, err, 8)
		},
		abi.FnStepBegin: func(f *Frame) uint64 { return f.done(f.Host.StepBegin(f.text(0), f.bytes(2))) },
		abi.FnStepEnd: func(f *Frame) uint64 {
			err := f.Host.StepEnd(int32(f.u32(0)), f.bytes(1))
			if err == nil {
				err = errors.New("step_end came back")
			}
			return f.done(0, err)
		},
		abi.FnAwait:     (*Frame).await,
		abi.FnResult:    func(f *Frame) uint64 { return f.answer(f.Host.Result(f.i64(0))) },
		abi.FnCancel:    func(f *Frame) uint64 { return f.done(f.Host.Cancel(f.i64(0))) },
		abi.FnComplete:  func(f *Frame) uint64 { return uint64(f.Host.Complete(f.bytes(0))) },
		abi.FnFail:      func(f *Frame) uint64 { return uint64(f.Host.Fail(f.bytes(0))) },
		abi.FnLog:       func(f *Frame) uint64 { return uint64(f.Host.Log(int32(f.u32(0)), f.peek(1))) },
		abi.FnNextEvent: func(f *Frame) uint64 { return uint64(f.Host.NextEvent()) },
		abi.FnWaitEvent: (*Frame).waitEvent,
	}
	maps.Copy(m, primitiveFuncs())
	return m
}

// primitiveFuncs returns the functions beyond time and steps.
func primitiveFuncs() map[string]Func {
	return map[string]Func{
		abi.FnSignalStart: func(f *Frame) uint64 { return f.done(f.Host.Signal(f.text(0), f.i64(2))) },
		abi.FnSignalWait: func(f *Frame) uint64 {
			h, err := f.Host.Signal(f.text(0), f.i64(2))
			return f.block(h, err, 3)
		},
		abi.FnSignalSend: func(f *Frame) uint64 {
			return f.done(f.Host.SignalSend(f.text(0), f.text(2), f.text(4), f.bytes(6)))
		},
		abi.FnChildStart: func(f *Frame) uint64 {
			return f.done(f.Host.Child(f.text(0), f.text(2), f.bytes(4), f.bytes(6)))
		},
		abi.FnChildRun: func(f *Frame) uint64 {
			h, err := f.Host.Child(f.text(0), f.text(2), f.bytes(4), f.bytes(6))
			return f.block(h, err, 8)
		},
		abi.FnChildID:       func(f *Frame) uint64 { return f.answer(f.Host.ChildID(f.i64(0))) },
		abi.FnHookStart:     func(f *Frame) uint64 { return f.done(f.Host.Hook(f.text(0), f.text(2), f.bytes(4))) },
		abi.FnEmit:          func(f *Frame) uint64 { return f.done(f.Host.Emit(f.text(0), f.bytes(2))) },
		abi.FnSetAttribute:  func(f *Frame) uint64 { return f.done(f.Host.SetAttribute(f.text(0), f.bytes(2))) },
		abi.FnCancelPolicy:  func(f *Frame) uint64 { return f.done(f.Host.CancelPolicy(int32(f.u32(0)))) },
		abi.FnVersion:       func(f *Frame) uint64 { return f.done(f.Host.Version(f.text(0), f.i64(2))) },
		abi.FnContinueAsNew: func(f *Frame) uint64 { return f.done(0, f.Host.ContinueAsNew(f.bytes(0), f.bytes(2))) },
		abi.FnQueryReply:    func(f *Frame) uint64 { return f.done(f.Host.Reply(0, int32(f.u32(0)), f.bytes(1))) },
		abi.FnUpdateReply:   (*Frame).updateReply,
		abi.FnFetch: func(f *Frame) uint64 {
			b, n := f.Host.Fetch(f.bytes(0))
			if n < 0 {
				return uint64(n)
			}
			return f.out(2, b)
		},
	}
}

// answer writes an answer into the buffer after the first argument, or returns the error code.
func (f *Frame) answer(b []byte, n int64) uint64 {
	if n < 0 {
		return uint64(n)
	}
	return f.out(1, b)
}

// waitEvent takes an event, or returns the Freeze code.
func (f *Frame) waitEvent() uint64 {
	e, err := f.Host.WaitEvent(f.i64(0))
	if errors.Is(err, engine.ErrFreeze) && f.Guest.Freezes() {
		return uint64(abi.Freeze.Neg())
	}
	return f.done(e, err)
}

// updateReply answers an update. It replaces handle 0, which means the query, by an invalid handle.
func (f *Frame) updateReply() uint64 {
	handle := f.i64(0)
	if handle == 0 {
		handle = -1
	}
	return f.done(f.Host.Reply(handle, int32(f.u32(1)), f.bytes(2)))
}
