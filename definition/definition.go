// Package definition reads workflows that are data: lists of steps, and graphs of nodes, in JSON or in YAML (package
// yamltext). It is pure. The command line checks definitions with it, and so does the guest that performs them (package
// interpret).
//
// A definition comes in one of three forms: a list of steps, each of which follows the one before, as Stevora has them; a
// graph of nodes, each of which begins when those that it names by "after" have ended; and a graph as DagNats writes it.
// Fields that are not known are faults.
package definition

import (
	"encoding/json"
	"slices"

	"github.com/wfhost/wfhost/definition/expression"
)

// Type says what a step does.
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

// End is the name by which a step of a list says that the run ends after it.
const End = "end"

// Definition is a workflow.
type Definition struct {
	Name         string
	Version      string // as the author calls it
	Description  string
	InputSchema  json.RawMessage // nil if there is none
	OutputSchema json.RawMessage
	Vars         []Var // computed from the input when a run starts
	TimeoutMs    int64 // of a run; 0 = none
	MaxParallel  int   // of a graph: nodes that are performed at a time
	Graph        bool
	Steps        []*Step // in the order of the text
	Result       *Value  // nil: the state of a list, the outputs of the last nodes of a graph
	Warnings     []*Fault

	byName map[string]*Step
	before [][]uint64 // of a graph: a bit for each step, by its index
}

// Var is a value that expressions name by vars.NAME.
type Var struct {
	Name  string
	Value *Value
}

// Step is a step of a list, or a node of a graph.
type Step struct {
	Name        string
	Type        Type
	Description string
	After       []string // of a graph: these must have ended
	SkipIf      *expression.Expression
	Optional    bool   // if it fails, the run continues
	OnFailure   string // this one is performed if it fails, and its output is the step's
	Compensate  string // this one is performed if the run fails later
	Next        string // of a list: this one is next, or End; "" is the one that follows
	Auxiliary   bool   // it is performed only as somebody's OnFailure or Compensate
	Retry       *Retry // nil: the host's defaults
	TimeoutMs   int64  // of one attempt, or of a wait for a signal; 0 = the default

	Handler  string // of a task, map or loop, with "host/" before its name
	Workflow string // of a map or workflow
	Config   *Value // what they are given; nil: the default
	Detach   bool   // of a workflow: nobody waits for it

	Wait      *Pause
	Condition *Branch
	Signal    string // of an event or approval
	Where     *expression.Expression
	Continue  bool            // of an event: a timeout is a result; of an approval: so is a rejection
	Schema    json.RawMessage // of the payload of an event
	Prompt    *Value          // of an approval
	Content   string          // of an approval: the field of the state that is to be approved
	Items     *Value          // of a map; nil: the output of the node before
	MaxItems  int
	Parallel  int // of a map
	Bounds    *Bounds
	Topic     string // of an emit
	Legacy    bool   // as DagNats does it

	Index int // in Steps

	at    *Node
	reads []reading
	refs  []reference
}

// reference is a name of another step.
type reference struct {
	at    *Node
	field string
}

// Retry says how often a step is attempted, as workflow.Option does.
type Retry struct {
	Attempts     int // the first included
	DelayMs      int64
	Backoff      string // fixed, linear or exponential
	Factor       float64
	MaxDelayMs   int64 // 0 = the default
	Jitter       float64
	MaxElapsedMs int64 // 0 = no bound
}

// Pause says how long a wait lasts: the later one of what is there.
type Pause struct {
	Duration *Value // text, or a number of milliseconds
	Until    *Value // an instant of RFC 3339
	Cron     string // the next instant of an expression
	Zone     string
	MaxMs    int64
	// UntilMs says that a number in Until is milliseconds from now.
	UntilMs bool
}

// Branch says which step of a list comes next; "" is the one that follows.
type Branch struct {
	If         *expression.Expression
	Then, Else string
}

// Bounds are those of a loop.
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

// Missing returns the handlers that the definition calls, and that a version may not call which has been granted these
// ("*" is all of them), sorted. A run fails where it calls one.
func (d *Definition) Missing(granted []string) []string {
	if slices.Contains(granted, "*") {
		return nil
	}
	return slices.DeleteFunc(d.Handlers(), func(h string) bool { return slices.Contains(granted, h) })
}

// Callers returns the names of the steps that call a handler, which is named without "host/", in the order of the text.
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
