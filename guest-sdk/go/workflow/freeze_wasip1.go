package workflow

// A guest that waits may be frozen: it gives up its WebAssembly stack, so that memory and globals are its whole state. The
// host continues it later from that state, in this instance or in another one. Compared with a replay of the journal, this
// takes almost no time, and a few thousand bytes.
//
// Go's compiler for WebAssembly keeps the stacks of goroutines in linear memory. If a function returns 1, its callers
// return, too, down to a loop of the runtime. The loop then calls the function that the Go stack has as the return address,
// at the point where it continues. This is how goroutines are switched (cmd/internal/obj/wasm, and wasm_pc_f_loop_export in
// runtime/asm_wasm.s). The register PAUSE ends the loop. pause does the same as runtime.pause, by which Go programs have
// returned to their host since Go 1.11. To the runtime, the goroutine is in a long call.
//
// While the guest is frozen, the stack pointer points to thawStack, so that a call of workflow_thaw does not overwrite the
// goroutine's frames. The call leaves no trace there or elsewhere: memory is the same as if the guest had never been
// frozen.

// codeFreeze is the code by which wait_event tells the guest to give up its stack.
const codeFreeze = 19

// codeQuery is the code by which a call tells the guest to answer a query.
const codeQuery = 17

// pausedSP is the stack pointer of the goroutine that gave up its stack, 0 while the guest is not frozen. thawStack is the
// stack for calls of workflow_thaw.
var (
	pausedSP  uintptr
	thawStack [64]uint64
)

// noEvent returns 0 in the same place of the memory as wait_event returns its answer. So the memory does not show whether
// wait_event was called before.
func noEvent(timeoutNs int64) int64

// pause makes the export that the host called return. The call of pause itself returns when the host calls workflow_thaw.
func pause()

// thaw continues at the call of pause. It does not return.
func thaw()

//go:wasmexport workflow_thaw
//go:nosplit
func workflowThaw() (code int32) {
	thaw()
	return 0
}
