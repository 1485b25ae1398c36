// Package interpret performs definitions. It uses only the calls of package workflow: a workflow in Go could do the same as
// a definition.
package interpret

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wfhost/wfhost/definition"
	"github.com/wfhost/wfhost/definition/expression"
	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

// Register registers a definition as a workflow of this module, under its name. text is the JSON of the definition, which
// the query "definition" returns. Call it in an init function.
func Register(d *definition.Definition, text []byte) {
	opts := []workflow.RegisterOption{workflow.Queries("progress", "definition")}
	if d.InputSchema != nil {
		opts = append(opts, workflow.InputSchema(string(d.InputSchema)))
	}
	if d.OutputSchema != nil {
		opts = append(opts, workflow.ResultSchema(string(d.OutputSchema)))
	}
	for _, s := range d.Steps {
		switch {
		case s.Type == definition.Approval:
			opts = append(opts, workflow.SignalSchema(s.Signal, definition.DecisionSchema))
		case s.Type == definition.Event && s.Schema != nil:
			opts = append(opts, workflow.SignalSchema(s.Signal, string(s.Schema)))
		case s.Type == definition.Event:
			opts = append(opts, workflow.Signals(s.Signal))
		}
	}
	fn := func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) { return run(ctx, d, in, text) }
	workflow.Register(d.Name, fn, opts...)
}

// Run performs a definition with an input.
func Run(ctx context.Context, d *definition.Definition, input json.RawMessage) (json.RawMessage, error) {
	return run(ctx, d, input, nil)
}

// status is the status of a step.
type status string

const (
	running   status = "running"
	completed status = "completed"
	skipped   status = "skipped"
	failed    status = "failed"    // the run continued; in progress, also the step whose failure failed the run
	recovered status = "recovered" // on_failure was performed
)

// outcome is the outcome of a step, as expressions read it.
type outcome struct {
	status status
	output any
	err    string
	silent bool  // for progress alone: for expressions the step has not ended
	partly []any // of a failed map: the outputs of completed items, nil for the rest; nil if no item completed
}

func (o *outcome) value() map[string]any {
	v := map[string]any{"status": string(o.status), "output": o.output}
	if o.err != "" {
		v["error"] = o.err
	}
	return v
}

// undoable is a step that must be compensated if the run fails.
type undoable struct {
	s *definition.Step
	o *outcome
}

// performance is a run of a definition.
type performance struct {
	d     *definition.Definition
	input any
	base  map[string]any // variables that are the same for all expressions
	state map[string]any // of a list
	done  []undoable     // in the order of their ends

	mu       sync.Mutex // guards the fields below, which the goroutines of a graph share
	outcomes map[string]*outcome
	names    map[string]bool // names in the journal
	waiting  []*waiter       // longest wait first
}

func run(ctx context.Context, d *definition.Definition, input json.RawMessage, text []byte) (json.RawMessage, error) {
	p := &performance{d: d, base: map[string]any{}, state: map[string]any{}, outcomes: map[string]*outcome{},
		names: map[string]bool{}}
	var err error
	p.input, err = expression.Decode(input)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	workflow.Query(ctx, "progress", func(json.RawMessage) ([]progress, error) { return p.progress(), nil })
	workflow.Query(ctx, "definition", func(json.RawMessage) (json.RawMessage, error) { return text, nil })
	if err := p.begin(ctx); err != nil {
		return nil, err
	}
	if d.TimeoutMs > 0 {
		limit := time.Duration(d.TimeoutMs) * time.Millisecond
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limit, fmt.Errorf("the run has not ended within %v", limit))
		defer stop()
	}
	perform := p.list
	if d.Graph {
		perform = p.graph
	}
	if err := perform(ctx); err != nil {
		return nil, p.compensate(ctx, err)
	}
	v, err := p.result()
	if err != nil {
		return nil, p.compensate(ctx, err)
	}
	return encode(v)
}

// begin computes the values that are known when the run starts.
func (p *performance) begin(ctx context.Context) error {
	info := workflow.Info(ctx)
	p.base["input"], p.base["error"] = p.input, nil
	p.base["run"] = map[string]any{"id": info.RunID, "workflow": info.Workflow, "version": int(info.Version),
		"started_at": info.StartedAt.UTC().Format(time.RFC3339Nano)}
	vars := map[string]any{}
	for _, v := range p.d.Vars {
		of, err := v.Value.Eval(p.base)
		if err != nil {
			return fmt.Errorf("vars: %s: %w", v.Name, err)
		}
		vars[v.Name] = of
	}
	p.base["vars"] = vars
	if fields, ok := p.input.(map[string]any); ok {
		p.state = maps.Clone(fields)
	}
	for _, s := range p.d.Steps {
		if s.Compensate != "" { // a cancelled run must run its compensations
			return workflow.SetCancelPolicy(ctx, workflow.CooperativeCancel)
		}
	}
	return nil
}

// env returns the variables for the expressions of a step.
func (p *performance) env(s *definition.Step) map[string]any {
	if !s.Computes() { // saves memory: the host keeps garbage, too, while the run sleeps
		return map[string]any{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	steps := map[string]any{}
	add := func(name string) {
		of := p.d.Step(name)
		if of == nil || !p.d.Before(of, s) {
			return
		}
		switch o := p.outcomes[name]; {
		case o != nil && o.status != running && !o.silent:
			steps[name] = o.value()
		case o == nil && !p.d.Graph && !of.Auxiliary && !s.Auxiliary: // a condition or a next skipped it
			steps[name] = (&outcome{status: skipped}).value()
		}
	}
	names, all := s.Reads()
	for _, name := range names {
		add(name)
	}
	if all { // slow if there are many steps
		for _, of := range p.d.Steps {
			add(of.Name)
		}
	}
	env := maps.Clone(p.base)
	env["steps"], env["state"] = steps, p.state
	return env
}

// list performs steps one after the other.
func (p *performance) list(ctx context.Context) error {
	for i := 0; i < len(p.d.Steps); {
		s := p.d.Steps[i]
		next := ""
		switch {
		case s.Auxiliary:
		case s.Type == definition.Condition:
			v, err := s.Condition.If.Eval(p.env(s))
			if err != nil {
				p.show(s, failed, err)
				return fmt.Errorf("step %q: %w", s.Name, err)
			}
			next = s.Condition.Else
			if expression.Truth(v) {
				next = s.Condition.Then
			}
			p.ended(s, &outcome{status: completed, output: expression.Truth(v)})
		default:
			p.set(s, &outcome{status: running})
			o, err := p.step(ctx, s)
			if err != nil {
				p.keep(s, o)
				p.show(s, failed, err)
				return err
			}
			p.ended(s, o)
			p.merge(s, o)
			next = s.Next
		}
		switch {
		case next == definition.End:
			return nil
		case next != "":
			i = p.d.Step(next).Index
		default:
			i++
		}
	}
	return nil
}

// merge adds the output of a step to the state of a list.
func (p *performance) merge(s *definition.Step, o *outcome) {
	fields, ok := o.output.(map[string]any)
	if !ok || o.status == skipped {
		return
	}
	switch s.Type {
	case definition.Task, definition.Event, definition.Set, definition.Workflow, definition.Loop:
	case definition.Approval:
		if content, edited := fields["editedContent"]; edited && s.Content != "" {
			fields = map[string]any{s.Content: content}
			break
		}
		return
	default:
		return
	}
	maps.Copy(p.state, fields)
}

// ended records the outcome of a step.
func (p *performance) ended(s *definition.Step, o *outcome) {
	p.set(s, o)
	p.keep(s, o)
}

// keep records a step that must be compensated if the run fails: a completed step, or a failed map with completed
// items.
func (p *performance) keep(s *definition.Step, o *outcome) {
	if s.Compensate != "" && o != nil && (o.status == completed || o.partly != nil) {
		p.done = append(p.done, undoable{s, o})
	}
}

// show sets the status of a step for progress alone: of a step that fails the run, or of an auxiliary step. If err is not
// nil, the status is failed.
func (p *performance) show(s *definition.Step, as status, err error) {
	o := &outcome{status: as, silent: true}
	if err != nil {
		o.status, o.err = failed, err.Error()
	}
	p.set(s, o)
}

func (p *performance) set(s *definition.Step, o *outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outcomes[s.Name] = o
}

// graph performs each node when its predecessors have ended. This goroutine makes all decisions; further goroutines perform.
func (p *performance) graph(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type end struct {
		s   *definition.Step
		o   *outcome
		err error
	}
	ends := make(chan end, len(p.d.Steps))
	open := make([]int, len(p.d.Steps)) // number of predecessors that have not ended
	following := map[string][]*definition.Step{}
	var ready []*definition.Step
	for i, s := range p.d.Steps {
		for _, name := range s.After {
			following[name] = append(following[name], s)
		}
		open[i] = len(s.After)
		if open[i] == 0 && !s.Auxiliary {
			ready = append(ready, s)
		}
	}
	var first error
	for at := 0; ; {
		for ; first == nil && len(ready) > 0 && at < p.d.MaxParallel; at++ {
			s := ready[0]
			ready = ready[1:]
			p.set(s, &outcome{status: running})
			if at == 0 && len(ready) == 0 { // no other node is in progress: a goroutine is not needed
				o, err := p.step(ctx, s)
				ends <- end{s, o, err}
				continue
			}
			go func() {
				o, err := p.step(ctx, s)
				ends <- end{s, o, err}
			}()
		}
		if at == 0 {
			return first
		}
		e := <-ends
		at--
		if e.err != nil {
			p.keep(e.s, e.o)
			p.show(e.s, failed, e.err)
			if first == nil {
				first = e.err
				cancel(first) // ends sleeps and waits; attempts that have begun are awaited
			}
			continue
		}
		p.ended(e.s, e.o)
		for _, s := range following[e.s.Name] {
			open[s.Index]--
			if open[s.Index] == 0 {
				ready = append(ready, s)
			}
		}
	}
}

// step performs a step, with its handling of failures. An error fails the run. The outcome, which may then be nil, shows how
// much was done nevertheless.
func (p *performance) step(ctx context.Context, s *definition.Step) (*outcome, error) {
	env := p.env(s)
	if s.SkipIf != nil {
		v, err := s.SkipIf.Eval(env)
		if err != nil {
			return nil, fmt.Errorf("step %q: %w", s.Name, err)
		}
		if expression.Truth(v) {
			return &outcome{status: skipped}, nil
		}
	}
	out, err := p.perform(ctx, s, env, p.given(s))
	if err == nil {
		return &outcome{status: completed, output: out}, nil
	}
	text := err.Error()
	broken := &outcome{status: failed, err: text}
	if s.Type == definition.Map {
		broken.partly, _ = out.([]any)
	}
	if ctx.Err() != nil { // the run ends: skip on_failure and optional
		return broken, err
	}
	if s.OnFailure != "" {
		instead := p.d.Step(s.OnFailure)
		env := p.env(instead)
		env["error"] = map[string]any{"step": s.Name, "message": text}
		p.show(instead, running, nil)
		out, again := p.perform(ctx, instead, env, env["error"])
		p.show(instead, completed, again)
		if again == nil {
			workflow.Log(ctx).Warn("step failed, and was recovered", "step", s.Name, "by", instead.Name, "cause", text)
			return &outcome{status: recovered, output: out, err: text}, nil
		}
		err = errors.Join(err, again)
	}
	if s.Optional && ctx.Err() == nil {
		workflow.Log(ctx).Warn("step failed, and is optional", "step", s.Name, "cause", text)
		return broken, nil
	}
	return broken, err
}

// given returns the default input of a step. In a list it is the state. In a graph it is the output of the predecessor, a
// map of the outputs of several predecessors by name, or the input of the run if there is none.
func (p *performance) given(s *definition.Step) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.d.Graph:
		return p.state
	case len(s.After) == 0:
		return p.input
	case len(s.After) == 1:
		return p.outcomes[s.After[0]].output
	}
	all := map[string]any{}
	for _, name := range s.After {
		all[name] = p.outcomes[name].output
	}
	return all
}

// compensate runs the compensations, newest first. It returns why the run failed, joined with errors of compensations.
func (p *performance) compensate(ctx context.Context, why error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(why, cause) {
		why = errors.Join(cause, why)
	}
	ctx = context.WithoutCancel(ctx)
	text := why.Error()
	for _, done := range slices.Backward(p.done) {
		ctx := workflow.Undoing(ctx, done.s.Name)
		undo, o := p.d.Step(done.s.Compensate), *done.o
		env := p.env(undo)
		env["error"] = map[string]any{"step": done.s.Name, "message": text}
		if o.partly != nil { // the compensation reads the outputs of completed items
			o.output = o.partly
			if steps, ok := env["steps"].(map[string]any); ok {
				steps[done.s.Name] = o.value()
			}
		}
		p.show(undo, running, nil)
		_, err := p.perform(ctx, undo, env, o.output)
		p.show(undo, completed, err)
		if err != nil {
			why = errors.Join(why, fmt.Errorf("undo %q: %w", done.s.Name, err))
		}
	}
	return why
}

// result returns the result of the run.
func (p *performance) result() (any, error) {
	if p.d.Result != nil {
		env := maps.Clone(p.base)
		steps := map[string]any{}
		for _, s := range p.d.Steps {
			if o := p.outcomes[s.Name]; o != nil && !o.silent {
				steps[s.Name] = o.value()
			} else if !s.Auxiliary {
				steps[s.Name] = (&outcome{status: skipped}).value()
			}
		}
		env["steps"], env["state"] = steps, p.state
		v, err := p.d.Result.Eval(env)
		if err != nil {
			return nil, fmt.Errorf("result: %w", err)
		}
		return v, nil
	}
	if !p.d.Graph {
		return p.state, nil
	}
	last := map[string]any{}
	for _, name := range p.d.Last() {
		last[name] = p.outcomes[name].output
		if len(p.d.Last()) == 1 {
			return last[name], nil
		}
	}
	return last, nil
}

// progress describes a step in the answer to the query "progress".
type progress struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Status status `json:"status"` // "" if the step has not begun
	Error  string `json:"error,omitempty"`
}

func (p *performance) progress() []progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]progress, len(p.d.Steps))
	for i, s := range p.d.Steps {
		list[i] = progress{Name: s.Name, Type: string(s.Type)}
		if o := p.outcomes[s.Name]; o != nil {
			list[i].Status, list[i].Error = o.status, o.err
		}
	}
	return list
}

// encode returns a value as JSON.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("the result cannot be written as JSON: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
