// Package engine defines what the host needs of a WebAssembly engine: compile once, make instances, call an export,
// and stop the guest from within a host call. Implementations are in subpackages; they know the shapes of the ABI
// (pointers, lengths, WASI structures) and nothing of journals.
package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// An Engine compiles modules. It is safe for concurrent use.
type Engine interface {
	// Compile prepares a module that has passed inspection. The result is stored in the engine's cache, if it has
	// one, so that neither the next call nor the next process compiles or reads the module again. A cache may reuse
	// the code of a module that differs only in its active data segments.
	Compile(ctx context.Context, s Source) (Module, error)
	// Forget deletes a module that is no longer needed from the engine's cache. Compile compiles it again if it is
	// needed after all.
	Forget(ctx context.Context, digest [sha256.Size]byte) error
	// Trim closes the instances that became idle before the previous call. It returns how many it closed and how many
	// idle instances are left.
	Trim(ctx context.Context) (closed, left int)
	Close(ctx context.Context) error
}

// A Source is the digest of a module, with a function that reads it if it must be compiled.
type Source struct {
	Digest [sha256.Size]byte // of the module
	// Read returns the module. It is called only if the engine's cache does not have it.
	Read func(ctx context.Context) ([]byte, error)
}

// Bytes returns the Source of a module in memory.
func Bytes(wasm []byte) Source {
	return Source{Digest: sha256.Sum256(wasm), Read: func(context.Context) ([]byte, error) { return wasm, nil }}
}

// A Module is a compiled module. It is safe for concurrent use.
type Module interface {
	// Instantiate returns an instance whose memory is in the state after the start section and _initialize, which ran
	// on a fixed clock and fixed random numbers. The instance may be new or reused: no guest can tell.
	Instantiate(ctx context.Context) (Instance, error)
	// HasExport reports whether the module exports a function of that name.
	HasExport(name string) bool
	// Bytes estimates the memory that the module takes until it is closed: machine code, image, and the engine's own
	// data. Instances are not included.
	Bytes() int64
	// Overhead estimates the bytes that a new instance takes besides its linear memory.
	Overhead() int64
	Close(ctx context.Context) error
}

// An Instance is one instantiation, used by one goroutine for one activation at a time.
type Instance interface {
	// Call calls an export of type () -> i32 or () -> (); the latter returns 0. h answers the guest's imports. The error
	// is h's error if h stopped the guest, the cause of ctx's end, or a *Trap; ErrFreeze if h froze the guest and the
	// guest obeyed. If the guest calls proc_exit with a code other than 0 after its memory or a table could not grow,
	// the error is a *Trap of kind TrapMemory, and the code is returned with it.
	Call(ctx context.Context, export string, h Host) (int32, error)
	// AllowFork is called before a Call within which Fork may be called. It makes each host call slightly slower.
	AllowFork()
	// Fork is called within a host call that has not been answered. From then on h answers the guest, including the
	// rest of this call, until h returns ErrUndo: then memory, globals and stack become again what they were at the
	// Fork, and the call is repeated with the previous host. Fork returns false if the instance cannot be forked or
	// is forked already.
	Fork(h Host) bool
	// Freeze returns the state of the guest after Call returned ErrFreeze. It returns false if computing that state
	// would cost too much; then the guest must be replayed instead.
	Freeze() (Frozen, bool)
	// Thaw gives a new instance the state of a frozen guest of the same Module. The guest continues when
	// abi.ExportThaw is called. If Thaw returns false, the instance is unchanged.
	Thaw(f Frozen) bool
	// Hash returns the SHA-256 of the whole linear memory and of the guest's mutable globals. It may be called from
	// within a host call.
	Hash() [32]byte
	// Resident estimates the bytes that the instance takes now: unshared pages of its linear memory, tables, globals,
	// references, stacks of its calls, and what is saved to undo a fork. It may be called from within a host call.
	Resident() int64
	// Size returns the bytes of the linear memory, including shared pages. It is cheap and may be called from within
	// a host call.
	Size() int64
	// Fuel returns what is left of the fuel granted to the guest, negative if it has used more; 0 if its module
	// counts no fuel. It must not be called while the guest computes.
	Fuel() int64
	// Release gives the instance back and returns what Resident would have. The instance must not be used afterwards.
	Release(ctx context.Context) (held int64)
}

// Hash computes Instance.Hash from a memory and the mutable globals in the order of the module, each in the lower
// bits.
func Hash(memory []byte, globals []uint64) (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write(memory)
	_ = binary.Write(h, binary.LittleEndian, globals) // writing to a hash does not fail
	return [sha256.Size]byte(h.Sum(sum[:0]))
}

// ErrUnavailable is wrapped by errors of Compile that do not concern the module itself.
var ErrUnavailable = errors.New("modules cannot be compiled")

// ErrFreeze is returned by a Host to freeze a guest that waits for an event.
var ErrFreeze = errors.New("freeze")

// Frozen is the state of a guest that has given up its stack: the difference of its memory and globals from a new
// instance's. It can be thawed any number of times.
type Frozen interface {
	// Bytes estimates the bytes that it takes.
	Bytes() int64
}

// Trap reports that the guest hit a trap or exited with an error.
type Trap struct {
	Message string
	Stack   string // the Wasm stack, one frame per line; may be empty
	Kind    string // one of the constants below
}

// Kinds of traps.
const (
	TrapGuest  = "trap"   // unreachable, out of bounds …
	TrapMemory = "memory" // it ended itself after its memory or a table could not grow
	TrapStack  = "stack"  // its calls were nested too deeply
	TrapExit   = "exit"   // proc_exit with a code other than 0
	TrapInit   = "init"   // any failure in the start section or _initialize
)

// Failure returns the failure kind of the run or attempt: TrapMemory, TrapStack, or else TrapGuest.
func (t *Trap) Failure() string {
	if t.Kind == TrapMemory || t.Kind == TrapStack {
		return t.Kind
	}
	return TrapGuest
}

// Error returns the message without the stack.
func (t *Trap) Error() string { return t.Message }

// Poll is a poll_oneoff call, reduced to what the host needs.
type Poll struct {
	Events   bool // includes a read subscription of the events descriptor
	HasClock bool
	// TimeoutNs is the time until the earliest clock subscription, on the guest's clocks; zero or less is due.
	TimeoutNs int64
}

// Ready is the kind of subscription that has an event.
type Ready uint8

// Answers to a poll.
const (
	ReadyNone Ready = iota
	ReadyClock
	ReadyEvents
)

// FuelGrant is the fuel that a guest is granted at a time, enough for about a millisecond. Go cannot preempt a guest.
// The grant bounds how long a guest that makes no host calls computes after it should stop, and how long it keeps a
// processor from other goroutines.
const FuelGrant = 1_000_000

// A Host answers the imports of one activation. Answers of type int64 follow the ABI: a negative number is a code. An
// error stops the guest at once, and the call never returns to it. An argument longer than abi.MaxPayloadBytes
// aliases the guest's memory: the host must not change or keep it.
type Host interface {
	// Enter is called at the beginning of every import.
	Enter() error
	// Refuel is called when the guest has used up its fuel. nil grants FuelGrant more, an error stops the guest.
	Refuel() error
	// Work is called before a call processes the given number of bytes, at most some 64 KiB at a time. A byte costs
	// one unit of fuel, so that a guest that spends its fuel in calls is stopped like a guest that computes.
	Work(bytes int64) error
	Input() []byte
	Info() []byte
	Now() int64
	Random(p []byte)
	Last() []byte
	Sleep(name string, ms int64) (int64, error)
	SleepUntil(name string, unixMs int64) (int64, error)
	SleepText(name, text string) (int64, error)
	Step(name, handler string, input, options []byte) (int64, error)
	StepBegin(name string, options []byte) (int64, error)
	StepEnd(ok int32, b []byte) error
	Await(handles []int64) (int64, error)
	Result(handle int64) ([]byte, int64)
	Cancel(handle int64) (int64, error)
	Complete(b []byte) int64
	Fail(b []byte) int64
	Log(level int32, text []byte) int64 // text aliases the guest's memory: do not change or keep it
	NextEvent() int64
	// WaitEvent takes an event, or waits for one until the timeout, which is answered by 0; a negative timeout waits
	// forever. ErrFreeze makes the guest return from its export at once. It continues later, perhaps in another
	// instance, as if it called WaitEvent again then.
	WaitEvent(timeoutNs int64) (int64, error)
	Signal(name string, timeoutMs int64) (int64, error)
	SignalSend(name, run, signal string, input []byte) (int64, error)
	Child(name, workflow string, input, options []byte) (int64, error)
	ChildID(handle int64) ([]byte, int64)
	Hook(name, token string, options []byte) (int64, error)
	Emit(topic string, data []byte) (int64, error)
	SetAttribute(key string, value []byte) (int64, error)
	CancelPolicy(policy int32) (int64, error)
	Version(id string, maximum int64) (int64, error)
	ContinueAsNew(input, options []byte) error
	// Reply answers the update with this handle, or the query if handle is 0.
	Reply(handle int64, ok int32, b []byte) (int64, error)
	// Fetch performs a request of a body or step function. It returns the framed response, or a negated code.
	Fetch(request []byte) ([]byte, int64)

	// Program returns the only argument of the program; empty for none.
	Program() string
	WallNs() int64
	MonoNs() int64
	Poll(p Poll) (Ready, error)
	// Stdin reads from the input as a stream, and returns 0 at its end.
	Stdin(p []byte) int
	// Output handles what the guest wrote to descriptor 1 or 2.
	Output(fd uint32, p []byte)
}

// ErrUndo is returned by a host passed to Fork, to undo what the guest did since the Fork.
var ErrUndo = errors.New("undo")

// Exit is the error of a guest that called proc_exit.
type Exit struct{ Code uint32 }

// Error names the exit code.
func (e *Exit) Error() string { return fmt.Sprintf("the workflow called proc_exit(%d)", e.Code) }
