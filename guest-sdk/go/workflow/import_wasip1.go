package workflow

import "unsafe"

// The functions that the host provides. A string is passed as (ptr, len).

//go:wasmimport workflow_v1 input
func hostInput(out unsafe.Pointer, n uint32) int64

//go:wasmimport workflow_v1 info
func hostInfo(out unsafe.Pointer, n uint32) int64

//go:wasmimport workflow_v1 last
func hostLast(out unsafe.Pointer, n uint32) int64

//go:wasmimport workflow_v1 random
func hostRandom(out unsafe.Pointer, n uint32) int64

//go:wasmimport workflow_v1 sleep_start
func hostSleepStart(name string, ms int64) int64

//go:wasmimport workflow_v1 sleep_until_start
func hostSleepUntilStart(name string, unixMs int64) int64

//go:wasmimport workflow_v1 sleep_text_start
func hostSleepTextStart(name, text string) int64

//go:wasmimport workflow_v1 step_start
func hostStepStart(name, handler, in, opts string) int64

//go:wasmimport workflow_v1 step_begin
func hostStepBegin(name, opts string) int64

//go:wasmimport workflow_v1 step_end
func hostStepEnd(ok int32, b string)

//go:wasmimport workflow_v1 result
func hostResult(h int64, out unsafe.Pointer, n uint32) int64

//go:wasmimport workflow_v1 cancel
func hostCancel(h int64) int64

//go:wasmimport workflow_v1 next_event
func hostNextEvent() int64

//go:wasmimport workflow_v1 complete
func hostComplete(b string) int64

//go:wasmimport workflow_v1 fail
func hostFail(b string) int64

//go:wasmimport workflow_v1 log
func hostLog(level int32, text string) int64

//go:wasmimport workflow_v1 wait_event
func hostWaitEvent(timeoutNs int64) int64

//go:wasmimport wasi_snapshot_preview1 proc_exit
func hostExit(code int32)

// read calls f with a larger buffer until the answer fits, and returns the answer; nil if f returns a negative number.
func read(f func(out unsafe.Pointer, n uint32) int64) []byte {
	b := make([]byte, 512)
	for {
		n := f(unsafe.Pointer(&b[0]), uint32(len(b)))
		if n < 0 {
			return nil
		}
		if int(n) <= len(b) {
			return b[:n]
		}
		b = make([]byte, n)
	}
}

// lastError returns the error of the last call to the host, which returned a negative number.
func lastError() error { return parseError(read(hostLast)) }

// viewed returns b as a string for a call to the host, without a copy.
func viewed(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
