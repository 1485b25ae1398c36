package definition

import (
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/cron"
)

// Limits of steps.
const (
	// maxItems is the largest number, and the default limit, of the elements of a map: a run may have as many live children.
	maxItems = 1000
	// maxIterations limits a loop: each iteration has one or two entries in the journal, which has at most 50,000.
	maxIterations = 10_000
	// defaultSide is the default for the number of elements of a map that are processed at a time.
	defaultSide = 10
)

// types maps the names of types to types. It includes the names in the other systems.
var types = map[string]Type{
	"task": Task, "normal": Task, "http": HTTP, "wait": Wait, "sleep": Wait, "condition": Condition, "event": Event,
	"external_event": Event, "wait_for_event": Event, "approval": Approval, "map": Map, "loop": Loop, "agent_loop": Loop,
	"workflow": Workflow, "sub_workflow": Workflow, "set": Set, "emit": Emit, "respond": Emit, "fail": Fail,
}

// foreign maps types of the other systems that are not supported to an explanation.
var foreign = map[string]string{
	"llm":     "steps of type llm are not ours: register a handler, and call it by a task",
	"agent":   "steps of type agent are not ours: register a handler, and call it by a task, or by a loop",
	"planner": "steps of type planner, which make steps while they run, are not ours: start a workflow",
}

// typeOf reads the type of a step.
func (d *decoder) typeOf(o *object) Type {
	n := o.get("type")
	if n == nil {
		return Task
	}
	if !o.is(n, Text) {
		return ""
	}
	if t, ok := types[n.Text]; ok {
		return t
	}
	if why, ok := foreign[n.Text]; ok {
		d.failf(n, "%s", why)
		return ""
	}
	known := map[string]bool{}
	for _, t := range types {
		known[string(t)] = true
	}
	d.failf(n, "the type %.40q is unknown; known are %s", n.Text, strings.Join(sortedKeys(known), ", "))
	return ""
}

// step reads a step of a list or a node of a graph.
func (d *decoder) step(n *Node) *Step {
	o := d.object(n, "a step")
	s := &Step{at: n}
	d.reads = nil
	s.Name = o.name("name")
	if !o.has("name") && n.Kind == Object {
		o.missing("a step needs a name")
	}
	s.Type = d.typeOf(o)
	s.Description = o.text(maxDescriptionChars, "description")
	if s.Type != Condition { // a condition only chooses the next step
		s.SkipIf = o.expression(d.scope(), "skip_if")
		s.Optional = o.boolean("optional")
		s.OnFailure = o.reference(s, "on_failure")
		s.Compensate = o.reference(s, "compensate")
		if !d.d.Graph {
			s.Next = o.reference(s, "next")
		}
	}
	if d.d.Graph {
		s.After = o.names("after")
	}
	if read := d.reader(s.Type); read != nil {
		read(o, s)
		o.done()
	}
	s.reads = d.reads
	return s
}

// reference returns a field that names another step.
func (o *object) reference(s *Step, names ...string) string {
	n := o.get(names...)
	if !o.is(n, Text) {
		return ""
	}
	s.refs = append(s.refs, reference{n, names[0]})
	return n.Text
}

// reader returns the function that reads the fields of a type, nil for an unknown type.
func (d *decoder) reader(t Type) func(*object, *Step) {
	switch t {
	case Task:
		return d.task
	case HTTP:
		return d.http
	case Wait:
		return d.wait
	case Condition:
		return d.condition
	case Event:
		return d.event
	case Approval:
		return d.approval
	case Map:
		return d.fan
	case Loop:
		return d.loop
	case Workflow:
		return d.workflow
	case Set, Emit, Fail:
		return d.simple
	}
	return nil
}

// attempts reads the fields of all steps that call a handler.
func (d *decoder) attempts(o *object, s *Step) {
	s.Retry = d.retry(o.get("retry"))
	s.TimeoutMs = o.either(1, maxWaitMs, "timeout", "timeoutMs")
}

// handler reads the name of a handler.
func (d *decoder) handler(o *object, names ...string) string {
	n := o.get(names...)
	if !o.is(n, Text) {
		return ""
	}
	name := strings.TrimPrefix(n.Text, handlerPrefix)
	if err := abi.CheckHandler(name); err != nil {
		d.failf(n, "%s", plainError(err))
	}
	return handlerPrefix + name
}

func (d *decoder) task(o *object, s *Step) {
	s.Handler = d.handler(o, "handler")
	if s.Handler == "" && !o.has("handler") {
		o.missing("a task needs a handler")
	}
	s.Config = d.given(o, d.scope())
	d.attempts(o, s)
}

// given reads the input of a handler or workflow.
func (d *decoder) given(o *object, names []string) *Value {
	n := o.get("config", "input")
	if n == nil {
		return nil
	}
	return d.value(n, names)
}

// http reads a request in the format of the handler host/http.
func (d *decoder) http(o *object, s *Step) {
	s.Handler = handlerPrefix + "http"
	request := &Node{Kind: Object, Place: o.n.Place, Line: o.n.Line}
	for _, name := range []string{"method", "url", "headers", "body", "accept"} {
		n := o.get(name)
		if n == nil {
			continue
		}
		if name == "headers" && n.Kind == Object {
			n = lists(n)
		}
		request.Members = append(request.Members, Member{name, n})
	}
	if request.field("url") == nil {
		o.missing("a request needs a url")
	}
	s.Config = d.value(request, d.scope())
	d.attempts(o, s)
}

// lists returns headers with a list of values for each name.
func lists(n *Node) *Node {
	h := *n
	h.Members = nil
	for _, m := range n.Members {
		if m.Value.Kind != List {
			m.Value = &Node{Kind: List, Items: []*Node{m.Value}, Place: m.Value.Place, Line: m.Value.Line}
		}
		h.Members = append(h.Members, m)
	}
	return &h
}

func (d *decoder) wait(o *object, s *Step) {
	p := &Pause{MaxMs: maxWaitMs}
	s.Wait = p
	if n := o.get("duration"); o.is(n, Text) {
		p.Duration = d.value(n, d.scope())
		if text, ok := p.Duration.Constant(); ok {
			o.duration(0, maxWaitMs, "duration")
			p.Duration = &Value{constant: text}
		}
	}
	if n := o.get("durationMs"); n != nil && n.Kind == Text {
		p.Duration = d.value(n, d.scope())
		if _, ok := p.Duration.Constant(); ok {
			d.failf(n, "it must be a number, or an expression, got a text")
		}
	} else if n != nil {
		p.Duration = &Value{constant: int(o.millis(0, maxWaitMs, "durationMs"))}
	}
	if n := o.get("until", "untilTimestamp"); o.is(n, Text) {
		p.Until = d.value(n, d.scope())
		if text, ok := p.Until.Constant(); ok {
			if _, err := abi.ParseInstant(text.(string)); err != nil { //nolint:forcetypeassert // the node is a Text
				d.failf(n, "%s", plainError(err))
			}
		}
	}
	p.Zone = o.text(maxNameChars, "zone")
	d.cron(o, p)
	if p.Duration == nil && p.Until == nil && p.Cron == "" && !o.has("cron") {
		o.missing("a wait needs one of duration, durationMs, until, untilTimestamp and cron")
	}
	if o.has("duration") && o.has("durationMs") {
		d.failf(o.n.field("durationMs"), `"durationMs" says the same as "duration", and both are there`)
	}
}

// cron reads a cron expression.
func (d *decoder) cron(o *object, p *Pause) {
	if n := o.get("cron"); o.is(n, Text) {
		p.Cron = n.Text
		if _, err := cron.Parse(p.Cron, p.Zone); err != nil {
			d.failf(n, "%v", err)
		}
	} else if p.Zone != "" {
		d.failf(o.get("zone"), "a zone is that of cron, and there is none")
	}
}

func (d *decoder) condition(o *object, s *Step) {
	if d.d.Graph {
		o.missing("a graph has no conditions: its nodes have skip_if")
	}
	b := &Branch{}
	s.Condition = b
	names := d.scope()
	n := o.get("if", "condition", "expression", "path")
	switch {
	case n == nil:
		o.missing("a condition needs an expression: if")
	case o.is(n, Text):
		text := strings.TrimSpace(n.Text)
		if dotted.MatchString(text) && !slices.Contains([]string{"true", "false", "nil"}, text) {
			b.If = d.compile(n, path(text, "state", names), names)
		} else {
			b.If = o.expression(names, n.Place.Key())
		}
	}
	b.Then, b.Else = o.reference(s, "then", "trueStep"), o.reference(s, "else", "falseStep")
}

func (d *decoder) event(o *object, s *Step) {
	s.Signal = o.name("signal", "signalType")
	if s.Signal == "" && !o.has("signal") && !o.has("signalType") {
		s.Signal = s.Name
	}
	s.Where = o.expression(d.scope("event"), "where")
	s.TimeoutMs = o.either(1, maxWaitMs, "timeout", "timeoutMs")
	s.Continue = o.choice("fail", []string{"fail", "continue"}, "on_timeout") == "continue"
	s.Schema = d.schema(o.get("schema"))
}

// DecisionSchema is the JSON Schema of the payload of an approval.
const DecisionSchema = `{"type":"object","anyOf":[{"required":["decision"]},{"required":["approved"]}],"properties":{` +
	`"decision":{"enum":["approved","rejected","edited"]},"approved":{"type":"boolean"},"decidedBy":{"type":"string"},` +
	`"comment":{"type":"string"},"editedContent":{}}}`

func (d *decoder) approval(o *object, s *Step) {
	if err := d.checkSchema([]byte(DecisionSchema)); err != nil { // no room for another schema
		d.failf(o.n, "%v", err)
	}
	s.Signal = o.name("signal")
	if s.Signal == "" && !o.has("signal") {
		s.Signal = s.Name
	}
	if n := o.get("prompt"); o.is(n, Text) {
		s.Prompt = d.value(n, d.scope())
	}
	s.Content = o.text(maxNameChars, "content_key", "contentKey")
	if s.Content != "" && d.d.Graph {
		d.failf(o.get("content_key", "contentKey"), "a graph has no state: give what is to be approved as config")
	}
	s.Config = d.given(o, d.scope())
	s.TimeoutMs = o.either(1, maxWaitMs, "timeout", "timeoutMs")
	s.Continue = o.choice("fail", []string{"fail", "continue"}, "on_rejected") == "continue"
}

// fan reads a map.
func (d *decoder) fan(o *object, s *Step) {
	s.Handler, s.Workflow = d.handler(o, "handler"), o.text(abi.MaxWorkflowBytes, "workflow")
	if (s.Handler == "") == (s.Workflow == "") {
		o.missing("a map needs a handler, or a workflow")
	}
	switch n := o.get("items"); {
	case n == nil:
		o.missing("a map needs items, which is an expression of a list")
	case n.Kind != List && (n.Kind != Text || !strings.HasPrefix(n.Text, "${")):
		d.failf(n, "items should be a list, or an expression of one such as ${input.list}, and is %s", n.Kind)
	default:
		s.Items = d.value(n, d.scope())
	}
	s.Config = d.given(o, d.scope("item", "index"))
	s.MaxItems = o.integer(1, maxItems, maxItems, "max_items")
	s.Parallel = o.integer(1, maxItems, defaultSide, "max_parallel")
	d.attempts(o, s)
}

func (d *decoder) loop(o *object, s *Step) {
	s.Handler = d.handler(o, "handler")
	if s.Handler == "" {
		o.missing("a loop needs a handler")
	}
	s.Config = d.given(o, d.scope("output", "iteration"))
	s.Bounds = &Bounds{
		Until:         o.expression(d.scope("output", "iteration"), "until"),
		MaxIterations: o.integer(1, maxIterations, 0, "max_iterations"),
		MaxDurationMs: o.duration(1, maxWaitMs, "max_duration"),
		DelayMs:       o.duration(0, maxWaitMs, "loop_delay"),
	}
	if !o.has("max_iterations") {
		o.missing("a loop needs a bound: max_iterations")
	}
	d.attempts(o, s)
}

func (d *decoder) workflow(o *object, s *Step) {
	n := o.get("workflow")
	switch {
	case n == nil:
		o.missing("a step of type workflow needs the name of a workflow")
	case o.is(n, Text):
		if err := abi.CheckWorkflow(n.Text); err != nil {
			d.failf(n, "%s", plainError(err))
		}
		s.Workflow = n.Text
	}
	s.Detach = o.boolean("detach")
	s.Config = d.given(o, d.scope())
	s.TimeoutMs = o.duration(1, maxWaitMs, "timeout")
}

// simple reads the fields of steps that only have a value.
func (d *decoder) simple(o *object, s *Step) {
	fields := map[Type][]string{Set: {"values"}, Emit: {"value"}, Fail: {"message"}}[s.Type]
	n := o.get(fields...)
	switch {
	case n == nil:
		o.missing("a step of type %s needs %s", s.Type, fields[0])
	case s.Type == Set && !o.is(n, Object), s.Type == Fail && !o.is(n, Text):
	default:
		s.Config = d.value(n, d.scope())
	}
	if s.Type == Emit {
		s.Topic = o.name("topic")
		if s.Topic == "" {
			s.Topic = s.Name
		}
	}
}
