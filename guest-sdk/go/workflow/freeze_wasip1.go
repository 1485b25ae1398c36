package workflow

// A guest that waits may be frozen: it gives up its WebAssembly stack, and what it is made of then is its memory and its
// globals, with which the host lets it continue later, in this instance or in another one. That takes no time and a few
// thousand bytes, where a replay of the journal takes both.
//
// Go's compiler for WebAssembly keeps the stacks of goroutines in linear memory. A function that returns 1 has its callers
// return as well, down to a loop of the runtime, which then calls the function to which the Go stack says that it returns,
// at the place where it continues: that is how goroutines are switched (cmd/internal/obj/wasm, and wasm_pc_f_loop_export in
// runtime/asm_wasm.s). The register PAUSE ends that loop. pause uses all this as runtime.pause does, which has been how a
// Go program returns to its host since Go 1.11; for the runtime, the goroutine has called a function that takes long.
//
// While the guest is frozen, the stack pointer lies in a stack of its own, so that workflow_thaw, which is called there,
// does not write where the goroutine's frames are. It leaves no trace, neither there nor elsewhere: memory is the same as
// that of a guest that was never frozen.

// codeFreeze is the code with which wait_event has the guest give up its stack.
const codeFreeze = 19

// codeQuery is the code with which a call says that a query waits for its answer.
const codeQuery = 17

// pausedSP is the stack pointer of the goroutine that gave up its stack, 0 while none has. thawStack is where
// workflow_thaw is called.
var (
	pausedSP  uintptr
	thawStack [64]uint64
)

// noEvent answers 0, in the place in which wait_event answers: so that nobody can tell there whether it was called before.
func noEvent(timeoutNs int64) int64

// pause returns from the export that was called. When workflow_thaw is called, it returns to its caller.
func pause()

// thaw continues where pause was called. It does not return.
func thaw()

//go:wasmexport workflow_thaw
//go:nosplit
func workflowThaw() (code int32) {
	thaw()
	return 0
}
