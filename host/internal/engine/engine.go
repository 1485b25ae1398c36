// Package engine says what the host needs of a WebAssembly engine: compile once, make instances, call an
// export, and stop the guest from within a host call. Implementations are in subpackages; they know the ABI's
// shapes (pointers, lengths, WASI structures) and nothing of journals.
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
	// Compile prepares a module that has passed inspection. The result is kept in the engine's cache, if it
	// has one, so that neither the next call nor the next process compiles or reads the module again. An engine
	// with a cache may give it the code of a module that differs in nothing but active segments of data.
	Compile(ctx context.Context, s Source) (Module, error)
	// Forget has the engine's cache drop a module that is not needed any more. One that is needed after all is compiled again.
	Forget(ctx context.Context, digest [sha256.Size]byte) error
	// Trim closes instances that have been idle since before the last call. It returns how many, and how many idle ones are left.
	Trim(ctx context.Context) (closed, left int)
	Close(ctx context.Context) error
}

// A Source is a module that may have to be compiled.
type Source struct {
	Digest [sha256.Size]byte // of the module
	// Read returns the module. It is called if the engine's cache does not have it.
	Read func(ctx context.Context) ([]byte, error)
}

// Bytes returns a source that is in memory.
func Bytes(wasm []byte) Source {
	return Source{Digest: sha256.Sum256(wasm), Read: func(context.Context) ([]byte, error) { return wasm, nil }}
}

// A Module is a compiled module. It is safe for concurrent use.
type Module interface {
	// Instantiate returns an instance whose memory is as after the start section and _initialize, which ran
	// on a fixed clock and fixed random. The instance may be a new one or a recycled one: no guest can tell.
	Instantiate(ctx context.Context) (Instance, error)
	// HasExport tells whether a function of that name is exported.
	HasExport(name string) bool
	// Bytes estimates what the module takes of memory while it is not closed: its machine code, its image, and what the
	// engine knows of it. Instances come on top.
	Bytes() int64
	// Overhead estimates the bytes that a new instance takes beside its linear memory.
	Overhead() int64
	Close(ctx context.Context) error
}

// An Instance is one live instantiation, used by one goroutine for one activation.
type Instance interface {
	// Call calls an export of type () -> i32 or () -> (), whose answer counts as 0. The guest's imports are
	// answered by h. The error is the one with which h stopped the guest, the cause of ctx's end, or a *Trap;
	// ErrFreeze if h froze the guest, which has obeyed. A guest that calls proc_exit with a code other than 0 after its memory
	// or a table could not grow is a *Trap of kind TrapMemory, with the code.
	Call(ctx context.Context, export string, h Host) (int32, error)
	// AllowFork is called before Call by who may want to Fork within it. It costs each call of the host some time.
	AllowFork()
	// Fork is called within a host call whose answer is still to come. From now on h answers the guest, the rest of
	// this call included, until it answers Undo: then memory, globals and stack become again what they are now, and
	// the call is repeated with the host before. false says that this instance cannot do that, or is forked.
	Fork(h Host) bool
	// Freeze returns the state of the guest, after Call returned ErrFreeze. It reports false where finding that out would
	// cost too much: then the guest is replayed instead.
	Freeze() (Frozen, bool)
	// Thaw gives a new instance the state of a frozen guest of the same Module. The guest goes on when abi.ExportThaw is
	// called. If Thaw reports false, the instance is unchanged.
	Thaw(f Frozen) bool
	// Hash returns the SHA-256 of the whole linear memory and of the guest's mutable globals. It may be called from within a
	// host call.
	Hash() [32]byte
	// Resident estimates the bytes that the instance takes now: the pages of its linear memory that it does
	// not share, its tables, globals and references, the stacks of its calls, and what is kept to undo a fork. It may
	// be called from within a host call.
	Resident() int64
	// Size returns the bytes of the linear memory, those included that it shares. It may be called from within a host call,
	// and costs nothing.
	Size() int64
	// Fuel returns what is left of the fuel that the guest was granted, negative if it has used more; 0 if its module counts
	// none. It is not called while the guest computes.
	Fuel() int64
	// Release gives the instance back and returns the bytes that it held, as Resident would. It is not used afterwards.
	Release(ctx context.Context) (held int64)
}

// Hash returns what Instance.Hash is of: a memory, and the mutable globals in the order of the module, each in the lower bits.
func Hash(memory []byte, globals []uint64) (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write(memory)
	_ = binary.Write(h, binary.LittleEndian, globals) // a hash takes everything
	return [sha256.Size]byte(h.Sum(sum[:0]))
}

// ErrUnavailable is wrapped by errors of Compile that say nothing of the module.
var ErrUnavailable = errors.New("modules cannot be compiled")

// ErrFreeze is the error with which a Host freezes a guest that waits for an event.
var ErrFreeze = errors.New("freeze")

// Frozen is a guest that has given up its stack: how its memory and globals differ from those of a new instance. It can be
// thawed any number of times.
type Frozen interface {
	// Bytes returns about how many bytes it takes.
	Bytes() int64
}

// Trap says that the guest broke down: it hit a trap, or exited.
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
	TrapInit   = "init"   // anything within the start section or _initialize
)

// Failure returns the kind of failure that a run or an attempt ends with: TrapMemory, TrapStack, or else TrapGuest.
func (t *Trap) Failure() string {
	if t.Kind == TrapMemory || t.Kind == TrapStack {
		return t.Kind
	}
	return TrapGuest
}

// Error returns the message without the stack.
func (t *Trap) Error() string { return t.Message }

// Poll is a poll_oneoff as far as it matters here.
type Poll struct {
	Events   bool // includes a read subscription of the events descriptor
	HasClock bool
	// TimeoutNs is the time from now to the earliest clock on the guest's clocks; zero or less is due.
	TimeoutNs int64
}

// Ready says which kind of subscription of a poll has an event.
type Ready uint8

// What a poll is answered with.
const (
	ReadyNone Ready = iota
	ReadyClock
	ReadyEvents
)

// FuelGrant is the fuel that a guest is granted at a time, which it uses up in about a millisecond. A guest that computes without
// calling the host is stopped within one, and keeps a processor from other goroutines no longer: it is not interrupted, as
// these are.
const FuelGrant = 1_000_000

// A Host answers the imports of one activation. Answers of type int64 follow the ABI: a negative number is a
// code. An error stops the guest at once: it never returns from the call. An argument of more than abi.MaxPayloadBytes is the
// guest's own memory: it is not changed, and not kept.
type Host interface {
	// Enter is called at the beginning of every import.
	Enter() error
	// Refuel is called when the guest has used its fuel up. nil grants it FuelGrant more, an error stops it.
	Refuel() error
	// Work is called before a call works on so many bytes, some 64 KiB at a time. Each counts as a unit of fuel, so
	// that a guest that uses its fuel up in calls is stopped like one that computes.
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
	Log(level int32, text []byte) int64 // text is the guest's own memory: it is not changed, and not kept
	NextEvent() int64
	// WaitEvent waits until there is an event, and takes it, or until the time has come, which is answered by 0; a negative
	// time-out is none. ErrFreeze has the guest return from its export at once, to go
	// on later, maybe in another instance, as if it had called WaitEvent again then.
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
	// Reply answers the update of a handle, or for handle 0 the query.
	Reply(handle int64, ok int32, b []byte) (int64, error)
	// Fetch performs a request of a body or step function: the framed response, or a negated code.
	Fetch(request []byte) ([]byte, int64)

	// Program returns the only argument of the program; empty if it has none.
	Program() string
	WallNs() int64
	MonoNs() int64
	Poll(p Poll) (Ready, error)
	// Stdin reads from the input as a stream, 0 at its end.
	Stdin(p []byte) int
	// Output takes what the guest wrote to descriptor 1 or 2.
	Output(fd uint32, p []byte)
}

// ErrUndo is the error with which a host that Fork was given undoes what the guest did since.
var ErrUndo = errors.New("undo")

// Exit is the error with which proc_exit stops the guest.
type Exit struct{ Code uint32 }

// Error names the exit code.
func (e *Exit) Error() string { return fmt.Sprintf("the workflow called proc_exit(%d)", e.Code) }
