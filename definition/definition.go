// Package definition reads workflows that are data: lists of steps, and graphs of nodes, in JSON or in YAML (package
// yamltext). It has no side effects. The command line checks definitions with it, and so does the guest that performs them
// (package interpret).
//
// A definition has one of three forms: a list of steps, which are performed in order, as in Stevora; a graph of nodes, where
// a node begins when the nodes in its "after" have ended; and a graph in the format of DagNats. Unknown fields are faults.
package definition

import (
	"encoding/json"
	"slices"

	"github.com/wfhost/wfhost/definition/expression"
)

// Type is the type of a step.
type Type string

// The types.
const (
	Task      Type = "task"      // calls a handler
	HTTP      Type = "http"      // makes a request, by the handler host/http
	Wait      Type = "wait"      // sleeps
	Condition Type = "condition" // chooses the next step of a list
	Event     Type = "event"     // waits for a signal
	Approval  Type = "approval"  // waits for the decision of a person
	Map       Type = "map"       // calls a handler or starts a run for each element of a list
	Loop      Type = "loop"      // calls a handler until it is done
	Workflow  Type = "workflow"  // starts a run of another workflow
	Set       Type = "set"       // computes values
	Emit      Type = "emit"      // appends to the output of the run
	Fail      Type = "fail"      // fails the run
)

// End is the name of the next step if the run ends after a step of a list.
const End = "end"

// Definition is a workflow.
type Definition struct {
	Name         string
	Version      string // chosen by the author
	Description  string
	InputSchema  json.RawMessage // nil if there is none
	OutputSchema json.RawMessage
	Vars         []Var // computed from the input when a run starts
	TimeoutMs    int64 // of a run; 0 = none
	MaxParallel  int   // of a graph: the most nodes that are performed at a time
	Graph        bool
	Steps        []*Step // in the order of the text
	Result       *Value  // nil: the state of a list, or the outputs of the last nodes of a graph
	Warnings     []*Fault

	byName map[string]*Step
	before [][]uint64 // of a graph: for each step, a bit set of its predecessors, by index
}

// Var is a value that expressions read as vars.NAME.
type Var struct {
	Name  string
	Value *Value
}

// Step is a step of a list, or a node of a graph.
type Step struct {
	Name        string
	Type        Type
	Description string
	After       []string // of a graph: the steps that must end before this step begins
	SkipIf      *expression.Expression
	Optional    bool   // if the step fails, the run continues
	OnFailure   string // the step that is performed if this step fails; its output becomes this step's output
	Compensate  string // the step that is performed if the run fails later
	Next        string // of a list: the next step, or End; "" is the following step
	Auxiliary   bool   // the step is only performed as the OnFailure or Compensate of another step
	Retry       *Retry // nil: the host's defaults
	TimeoutMs   int64  // of one attempt, or of a wait for a signal; 0 = the default

	Handler  string // of a task, map or loop, with "host/" before its name
	Workflow string // of a map or workflow
	Config   *Value // the input of the handler or workflow; nil: the default
	Detach   bool   // of a workflow: the run does not wait for it

	Wait      *Pause
	Condition *Branch
	Signal    string // of an event or approval
	Where     *expression.Expression
	Continue  bool            // a timeout of an event or approval, and a rejection, are not failures
	Schema    json.RawMessage // of the payload of an event
	Prompt    *Value          // of an approval
	Content   string          // of an approval: the field of the state that a person approves
	Items     *Value          // of a map; nil: the output of the preceding node
	MaxItems  int
	Parallel  int // of a map
	Bounds    *Bounds
	Topic     string // of an emit
	Legacy    bool   // behaves as in DagNats

	Index int // in Steps

	at    *Node
	reads []reading
	refs  []reference
}

// reference is a field that names another step.
type reference struct {
	at    *Node
	field string
}

// Retry sets how a step is retried. The fields correspond to the options of package workflow.
type Retry struct {
	Attempts     int // including the first
	DelayMs      int64
	Backoff      string // fixed, linear or exponential
	Factor       float64
	MaxDelayMs   int64 // 0 = the default
	Jitter       float64
	MaxElapsedMs int64 // 0 = no limit
}

// Pause is the length of a wait. If several fields are set, the latest instant counts.
type Pause struct {
	Duration *Value // text, or a number of milliseconds
	Until    *Value // an instant in RFC 3339
	Cron     string // a cron expression, for its next instant
	Zone     string
	MaxMs    int64
	// UntilMs allows a number of milliseconds from now in Until.
	UntilMs bool
}

// Branch chooses the next step of a list; "" is the following step.
type Branch struct {
	If         *expression.Expression
	Then, Else string
}

// Bounds limits a loop.
type Bounds struct {
	Until         *expression.Expression // nil: until the output has no "continue": true
	MaxIterations int
	MaxDurationMs int64
	DelayMs       int64
}

// Step returns the step of a name, nil if there is none.
func (d *Definition) Step(name string) *Step { return d.byName[name] }

// Handlers returns the handlers of the host that the definition calls, without "host/", sorted.
func (d *Definition) Handlers() []string {
	seen := map[string]bool{}
	for _, s := range d.Steps {
		if s.Handler != "" {
			seen[s.Handler[len(handlerPrefix):]] = true
		}
	}
	return sortedKeys(seen)
}

// Missing returns the handlers that the definition calls and that are not in granted, sorted. "*" grants all handlers. A run
// fails when it calls a missing handler.
func (d *Definition) Missing(granted []string) []string {
	if slices.Contains(granted, "*") {
		return nil
	}
	return slices.DeleteFunc(d.Handlers(), func(h string) bool { return slices.Contains(granted, h) })
}

// Callers returns the names of the steps that call a handler, in the order of the text. handler is a name without "host/".
func (d *Definition) Callers(handler string) (names []string) {
	for _, s := range d.Steps {
		if s.Handler == handlerPrefix+handler {
			names = append(names, s.Name)
		}
	}
	return names
}

// handlerPrefix begins the names of handlers of the host.
const handlerPrefix = "host/"
