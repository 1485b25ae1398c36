// Package abi is the contract between a workflow module (the guest) and the host, as Go constants:
// every function that a module may import, every export that the host looks for, the codes that
// calls answer with, the limits of everything that crosses the boundary, and the text form of
// durations. It imports nothing but the standard library. ABI.md, beside this file, is the same
// contract in prose, with the reasons.
//
// The contract is called v1 and only grows: functions, codes and event kinds are added, a signature
// or a number never changes its meaning.
package abi

import "encoding/json"

// ImportModule is the Wasm module name from which a guest imports the workflow functions.
const ImportModule = "workflow_v1"

// WASIModule is the Wasm module name of WASI preview 1, which the host supplies in a virtual form.
const WASIModule = "wasi_snapshot_preview1"

// EnvModule is the Wasm module name of AssemblyScript's run-time, of which only EnvFunctions are supplied.
const EnvModule = "env"

// Names of exports that the host looks for in a module.
const (
	ExportMemory     = "memory"            // required: the one linear memory
	ExportRun        = "workflow_run"      // () -> i32, the entry point
	ExportRunShort   = "run"               // () -> i32, taken when workflow_run is absent
	ExportStart      = "_start"            // () , entry point of a WASI command
	ExportInitialize = "_initialize"       // (), run before anything else, on a fixed clock and fixed random
	ExportStep       = "workflow_step"     // () -> i32, runs the step function that info.step names
	ExportDescribe   = "workflow_describe" // (), answers with a Description through complete
	ExportThaw       = "workflow_thaw"     // () -> i32, goes on where the guest was frozen
)

// EventsFD is the descriptor that a guest polls to learn that an event waits for next_event.
const EventsFD = 3

// HandlerPrefix begins the name of every handler that is Go code of the embedding program or of the host.
const HandlerPrefix = "host/"

// UpdatePrefix begins the name of the signal as which a workflow takes an update, and of the query by which it is asked whether
// it accepts one. The update's own name follows.
const UpdatePrefix = HandlerPrefix + "update/"

// EventKind is the lower three bits of what next_event answers; the handle is above them.
type EventKind uint8

// Kinds of events. A guest ignores kinds that it does not know.
const (
	EventResolved EventKind = 0 // the handle has been resolved: result answers
	EventRunBody  EventKind = 1 // execute the body of that handle now, then step_end
	EventCancel   EventKind = 2 // the run was asked to cancel (cooperative policy), given once
	EventDump     EventKind = 3 // nothing can ever wake this run: report the stacks through fail
	EventQuery    EventKind = 4 // a query waits for its answer
)

// PackEvent gives the number that next_event answers for an event. Handles start at 1 and events without
// a handle use handle 0, so that EventResolved never packs to 0, which means "no event".
func PackEvent(kind EventKind, handle int64) int64 { return handle<<3 | int64(kind) }

// BodiesEvent is the value of Description.Bodies of modules that are told RUN_BODY at their suspension
// point (as an event, or as the answer of await) instead of by step_begin.
const BodiesEvent = "event"

// Description is what a module says of itself in workflow_describe.
type Description struct {
	Workflows []WorkflowDescription `json:"workflows,omitempty"`
	Steps     []string              `json:"steps,omitzero"`   // names of the module's step functions
	Bodies    string                `json:"bodies,omitempty"` // "" or BodiesEvent
	SDK       string                `json:"sdk,omitempty"`    // for people, such as "go/1.0"
}

// WorkflowDescription is one workflow of a module.
type WorkflowDescription struct {
	Name         string          `json:"name"`
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`  // JSON Schema, draft 2020-12
	OutputSchema json.RawMessage `json:"output_schema,omitempty"` // the same of its result
	Queries      []string        `json:"queries,omitempty"`
	Signals      []string        `json:"signals,omitempty"` // names of those that it receives, if it says so
	// SignalSchemas are those of signals' payloads, by name.
	SignalSchemas map[string]json.RawMessage `json:"signal_schemas,omitempty"`
	Updates       []string                   `json:"updates,omitempty"` // names of those that it takes, if it says so
	// UpdateSchemas are those of updates' inputs, by name.
	UpdateSchemas map[string]json.RawMessage `json:"update_schemas,omitempty"`
}

// Log levels of the log function.
const (
	LogDebug = 0
	LogInfo  = 1
	LogWarn  = 2
	LogError = 3
)
