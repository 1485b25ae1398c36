package abi

import "strings"

// Type is the type of a Wasm value that crosses the boundary.
type Type byte

// The value types, with the numbers of the Wasm binary format. F64 is the result of AssemblyScript's seed, and of nothing else.
const (
	I32 Type = 0x7f
	I64 Type = 0x7e
	F64 Type = 0x7c
)

// Signature is the type of an imported or exported function.
type Signature struct {
	Params  []Type
	Results []Type
}

// sig reads a signature: i is i32, I is i64, D is f64, and what follows the colon is the result.
func sig(text string) Signature {
	var s Signature
	into := &s.Params
	for _, c := range text {
		switch c {
		case 'i':
			*into = append(*into, I32)
		case 'I':
			*into = append(*into, I64)
		case 'D':
			*into = append(*into, F64)
		case ':':
			into = &s.Results
		}
	}
	return s
}

// Equal tells whether two signatures are the same type.
func (s Signature) Equal(t Signature) bool {
	return string(typeBytes(s.Params)) == string(typeBytes(t.Params)) &&
		string(typeBytes(s.Results)) == string(typeBytes(t.Results))
}

func typeBytes(types []Type) []byte {
	b := make([]byte, len(types))
	for i, t := range types {
		b[i] = byte(t)
	}
	return b
}

// String shows a signature in the text format's way: "(i32 i32) -> i64".
func (s Signature) String() string {
	words := func(types []Type) string {
		var list []string
		for _, t := range types {
			list = append(list, t.String())
		}
		return strings.Join(list, " ")
	}
	text := "(" + words(s.Params) + ")"
	if len(s.Results) > 0 {
		text += " -> " + words(s.Results)
	}
	return text
}

// String gives "i32", "i64" or, for what the contract does not use, a number.
func (t Type) String() string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case 0x7d:
		return "f32"
	case F64:
		return "f64"
	}
	return "other"
}

// Workflow function names, as imported from ImportModule.
const (
	FnInput           = "input"
	FnInfo            = "info"
	FnNow             = "now"
	FnRandom          = "random"
	FnLast            = "last"
	FnSleep           = "sleep"
	FnSleepUntil      = "sleep_until"
	FnSleepText       = "sleep_text"
	FnSleepStart      = "sleep_start"
	FnSleepUntilStart = "sleep_until_start"
	FnSleepTextStart  = "sleep_text_start"
	FnStepDo          = "step_do"
	FnStepStart       = "step_start"
	FnStepBegin       = "step_begin"
	FnStepEnd         = "step_end"
	FnSignalWait      = "signal_wait"
	FnSignalStart     = "signal_start"
	FnSignalSend      = "signal_send"
	FnChildRun        = "child_run"
	FnChildStart      = "child_start"
	FnChildID         = "child_id"
	FnHookStart       = "hook_start"
	FnAwait           = "await"
	FnResult          = "result"
	FnCancel          = "cancel"
	FnVersion         = "version"
	FnFetch           = "fetch"
	FnComplete        = "complete"
	FnFail            = "fail"
	FnContinueAsNew   = "continue_as_new"
	FnLog             = "log"
	FnEmit            = "emit"
	FnSetAttribute    = "set_attribute"
	FnCancelPolicy    = "cancel_policy"
	FnQueryReply      = "query_reply"
	FnUpdateReply     = "update_reply"
	FnNextEvent       = "next_event"
	FnWaitEvent       = "wait_event"
)

// Functions is every function of ImportModule with its type. A (ptr, len) pair is two i32, an out
// buffer (out, cap) likewise. The map must not be changed.
var Functions = map[string]Signature{
	FnInput:           sig("ii:I"),         // out, cap
	FnInfo:            sig("ii:I"),         // out, cap
	FnNow:             sig(":I"),           //
	FnRandom:          sig("ii:I"),         // ptr, len
	FnLast:            sig("ii:I"),         // out, cap
	FnSleep:           sig("iiI:I"),        // name, ms
	FnSleepUntil:      sig("iiI:I"),        // name, unix_ms
	FnSleepText:       sig("iiii:I"),       // name, text
	FnSleepStart:      sig("iiI:I"),        // name, ms
	FnSleepUntilStart: sig("iiI:I"),        // name, unix_ms
	FnSleepTextStart:  sig("iiii:I"),       // name, text
	FnStepDo:          sig("iiiiiiiiii:I"), // name, handler, in, opts, out, cap
	FnStepStart:       sig("iiiiiiii:I"),   // name, handler, in, opts
	FnStepBegin:       sig("iiii:I"),       // name, opts
	FnStepEnd:         sig("iii:"),         // ok, ptr, len; never returns
	FnSignalWait:      sig("iiIii:I"),      // name, timeout_ms, out, cap
	FnSignalStart:     sig("iiI:I"),        // name, timeout_ms
	FnSignalSend:      sig("iiiiiiii:I"),   // name, run, signal, in
	FnChildRun:        sig("iiiiiiiiii:I"), // name, workflow, in, opts, out, cap
	FnChildStart:      sig("iiiiiiii:I"),   // name, workflow, in, opts
	FnChildID:         sig("Iii:I"),        // handle, out, cap
	FnHookStart:       sig("iiiiii:I"),     // name, token, opts
	FnAwait:           sig("ii:I"),         // handles, n
	FnResult:          sig("Iii:I"),        // handle, out, cap
	FnCancel:          sig("I:I"),          // handle
	FnVersion:         sig("iiI:I"),        // id, max
	FnFetch:           sig("iiii:I"),       // req, out, cap
	FnComplete:        sig("ii:I"),         // ptr, len
	FnFail:            sig("ii:I"),         // ptr, len
	FnContinueAsNew:   sig("iiii:"),        // in, opts; never returns
	FnLog:             sig("iii:I"),        // level, ptr, len
	FnEmit:            sig("iiii:I"),       // topic, ptr, len
	FnSetAttribute:    sig("iiii:I"),       // key, value
	FnCancelPolicy:    sig("i:I"),          // 0 final, 1 cooperative
	FnQueryReply:      sig("iii:"),         // ok, ptr, len; never returns
	FnUpdateReply:     sig("Iiii:I"),       // handle, ok, ptr, len
	FnNextEvent:       sig(":I"),           //
	FnWaitEvent:       sig("I:I"),          // timeout_ns
}

// EnvFunctions is what the host supplies of AssemblyScript's module "env". The map must not be changed.
var EnvFunctions = map[string]Signature{
	"abort": sig("iiii:"), // message, file (UTF-16 strings), line, column; traps
	"seed":  sig(":D"),    // drawn from random
}

// WASIFunctions is WASI preview 1 whole, with the types of the snapshot's witx files
// (https://github.com/WebAssembly/WASI, tag snapshot-01). The map must not be changed.
var WASIFunctions = map[string]Signature{
	"args_get":                sig("ii:i"),
	"args_sizes_get":          sig("ii:i"),
	"clock_res_get":           sig("ii:i"),
	"clock_time_get":          sig("iIi:i"),
	"environ_get":             sig("ii:i"),
	"environ_sizes_get":       sig("ii:i"),
	"fd_advise":               sig("iIIi:i"),
	"fd_allocate":             sig("iII:i"),
	"fd_close":                sig("i:i"),
	"fd_datasync":             sig("i:i"),
	"fd_fdstat_get":           sig("ii:i"),
	"fd_fdstat_set_flags":     sig("ii:i"),
	"fd_fdstat_set_rights":    sig("iII:i"),
	"fd_filestat_get":         sig("ii:i"),
	"fd_filestat_set_size":    sig("iI:i"),
	"fd_filestat_set_times":   sig("iIIi:i"),
	"fd_pread":                sig("iiiIi:i"),
	"fd_prestat_dir_name":     sig("iii:i"),
	"fd_prestat_get":          sig("ii:i"),
	"fd_pwrite":               sig("iiiIi:i"),
	"fd_read":                 sig("iiii:i"),
	"fd_readdir":              sig("iiiIi:i"),
	"fd_renumber":             sig("ii:i"),
	"fd_seek":                 sig("iIii:i"),
	"fd_sync":                 sig("i:i"),
	"fd_tell":                 sig("ii:i"),
	"fd_write":                sig("iiii:i"),
	"path_create_directory":   sig("iii:i"),
	"path_filestat_get":       sig("iiiii:i"),
	"path_filestat_set_times": sig("iiiiIIi:i"),
	"path_link":               sig("iiiiiii:i"),
	"path_open":               sig("iiiiiIIii:i"),
	"path_readlink":           sig("iiiiii:i"),
	"path_remove_directory":   sig("iii:i"),
	"path_rename":             sig("iiiiii:i"),
	"path_symlink":            sig("iiiii:i"),
	"path_unlink_file":        sig("iii:i"),
	"poll_oneoff":             sig("iiii:i"),
	"proc_exit":               sig("i:"),
	"proc_raise":              sig("i:i"),
	"random_get":              sig("ii:i"),
	"sched_yield":             sig(":i"),
	"sock_accept":             sig("iii:i"),
	"sock_recv":               sig("iiiiii:i"),
	"sock_send":               sig("iiiii:i"),
	"sock_shutdown":           sig("ii:i"),
}

// Import gives the type of an importable function, and whether the host supplies it at all.
func Import(module, name string) (Signature, bool) {
	var table map[string]Signature
	switch module {
	case ImportModule:
		table = Functions
	case WASIModule:
		table = WASIFunctions
	case EnvModule:
		table = EnvFunctions
	}
	s, ok := table[name]
	return s, ok
}
