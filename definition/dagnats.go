package definition

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/cron"
	"github.com/wfhost/wfhost/definition/expression"
)

// Limits of DagNats, in milliseconds.
const (
	maxDagNatsSleepMs    = 365 * 24 * 3600 * 1000
	longDagNatsSleepMs   = 30 * 24 * 3600 * 1000
	maxDagNatsApprovalMs = 168 * 3600 * 1000
)

// isDagNats reports whether steps have the format of DagNats: the first step has an id and no name.
func isDagNats(steps *Node) bool {
	return len(steps.Items) > 0 && steps.Items[0].field("id") != nil && steps.Items[0].field("name") == nil
}

// dagnats reads a graph in the format of DagNats.
func (d *decoder) dagnats(o *object, steps *Node) {
	d.head(o)
	d.d.TimeoutMs = o.goDuration(maxWaitMs, "timeout")
	standard := d.dagnatsRetry(o.get("default_retry"))
	if n := o.get("concurrency"); n != nil {
		c := d.object(n, "concurrency")
		d.d.MaxParallel = c.integer(0, maxParallel, maxParallel, "max_steps")
		if d.d.MaxParallel == 0 {
			d.d.MaxParallel = maxParallel
		}
		c.refuse("max_runs", "how many runs there are at a time is not said by a definition")
		c.done()
	}
	o.refuse("triggers", "a definition does not start runs: make a schedule, or start them by a request, and leave this out")
	for _, name := range []string{"priority", "singleton", "sticky", "cancel_on", "idempotency_key", "aux_steps"} {
		o.refuse(name, fmt.Sprintf("%q of DagNats is not supported: leave it out", name))
	}
	for _, n := range d.items(steps) {
		d.d.Steps = append(d.d.Steps, d.dagnatsStep(n, standard))
	}
	o.done()
}

// goDuration reads a duration in Go's text format or as a number of nanoseconds. It returns milliseconds, 0 if there is none.
func (o *object) goDuration(most int64, names ...string) int64 {
	n := o.get(names...)
	if n == nil {
		return 0
	}
	if n.Kind == Number {
		ns, err := strconv.ParseFloat(n.Text, 64)
		if err != nil || !(ns >= 0 && ns <= float64(most)*1e6) {
			o.d.failf(n, "it must be from 0 to %d nanoseconds, got %.40s", most*1_000_000, n.Text)
			return 0
		}
		return int64(ns+999_999) / 1_000_000
	}
	return o.duration(0, most, names...)
}

// dagnatsRetry reads a retry policy.
func (d *decoder) dagnatsRetry(n *Node) *Retry {
	if n == nil {
		return nil
	}
	o := d.object(n, "retry")
	r := &Retry{
		Attempts:   max(o.integer(0, 1000, 0, "max_attempts"), 1),
		Backoff:    o.choice("fixed", []string{"fixed", "linear", "exponential"}, "strategy"),
		DelayMs:    o.goDuration(maxWaitMs, "initial_delay"),
		MaxDelayMs: o.goDuration(maxWaitMs, "max_delay"),
		Factor:     o.number(1, 1000, 2, "multiplier"),
	}
	if r.MaxDelayMs == 0 {
		r.MaxDelayMs = maxWaitMs // DagNats has no limit
	}
	o.done()
	return r
}

// dagnatsStep reads a step.
func (d *decoder) dagnatsStep(n *Node, standard *Retry) *Step {
	o := d.object(n, "a step")
	s := &Step{at: n, Legacy: true}
	d.reads = nil
	s.Name = o.name("id")
	if s.Name == "" && !o.has("id") && n.Kind == Object {
		o.missing("a step needs an id")
	}
	s.Type = d.typeOf(o)
	s.After = o.names("depends_on")
	if m := o.get("metadata"); m != nil {
		d.object(m, "metadata") // for people, not used
	}
	for _, name := range []string{"worker_group", "rate_limit", "keyed_rate_limit", "max_task_concurrency", "singleton",
		"required_capabilities"} {
		o.refuse(name, fmt.Sprintf("%q of DagNats is not supported: leave it out", name))
	}
	s.OnFailure, s.Compensate = o.reference(s, "on_failure"), o.reference(s, "compensate")
	s.TimeoutMs = o.goDuration(maxWaitMs, "timeout")
	s.SkipIf = d.parentCondition(o.get("skip_if"))
	retries := o.integer(0, 1000, 0, "retries")
	s.Retry = d.dagnatsRetry(o.get("retry"))
	switch {
	case s.Retry != nil:
	case standard != nil:
		s.Retry = standard
	default:
		s.Retry = &Retry{Attempts: max(retries, 1), Backoff: "fixed", DelayMs: 5000, Factor: 2, MaxDelayMs: 5000}
	}
	if n := o.get("task"); s.Type == Task || s.Type == Map || s.Type == Loop {
		s.Handler = d.handler(o, "task")
		if n == nil {
			o.missing("a step of this type needs a task")
		}
	}
	d.dagnatsConfig(o, s)
	o.done()
	s.reads = d.reads
	return s
}

// dagnatsConfig reads the fields that depend on the type of a step.
func (d *decoder) dagnatsConfig(o *object, s *Step) {
	if s.Type == Task || s.Type == "" {
		return
	}
	c := d.object(&Node{Kind: Object, Place: o.n.Place, Line: o.n.Line}, "config")
	if n := o.get("config", "loop"); n != nil {
		c = d.object(n, "config")
	}
	switch s.Type {
	case Map:
		s.MaxItems, s.Parallel = c.integer(1, maxItems, maxItems, "max_items"), defaultSide
	case Loop:
		s.Bounds = &Bounds{MaxIterations: c.integer(1, maxIterations, 0, "max_iterations"),
			MaxDurationMs: c.goDuration(maxWaitMs, "max_duration"), DelayMs: c.goDuration(maxWaitMs, "loop_delay")}
		c.get("budget_warn_at")
		c.get("budget_force_at") // advice to workers, not used
		if !c.has("max_iterations") {
			c.missing("a loop needs a bound: max_iterations")
		}
	case Workflow:
		d.dagnatsWorkflow(c, s)
	case Wait:
		d.dagnatsSleep(c, s)
	case Event:
		d.dagnatsEvent(c, s)
	case Approval:
		d.dagnatsApproval(c, s)
	case Emit:
		d.respond(c, s)
	default:
		d.failf(o.n, "DagNats has no steps of type %s", s.Type)
	}
	c.done()
}

func (d *decoder) dagnatsWorkflow(c *object, s *Step) {
	s.Workflow, s.Detach = c.text(abi.MaxWorkflowBytes, "workflow"), c.boolean("detach")
	if err := abi.CheckWorkflow(s.Workflow); err != nil {
		d.failf(c.n, "workflow: %s", plainError(err))
	}
}

func (d *decoder) dagnatsSleep(c *object, s *Step) {
	p := &Pause{MaxMs: maxDagNatsSleepMs, UntilMs: true}
	s.Wait = p
	forms := 0
	if n := c.get("duration"); n != nil && !(n.Kind == Number && n.Text == "0") {
		forms++
		ms := c.goDuration(maxDagNatsSleepMs, "duration")
		if ms == 0 {
			d.failf(n, "a sleep must be longer than 0")
		}
		if ms > longDagNatsSleepMs {
			d.warnf(n, "the sleep is longer than 30 days: %s", abi.FormatDuration(ms))
		}
		p.Duration = &Value{constant: int(ms)}
	}
	if n := c.get("cron"); c.is(n, Text) {
		forms++
		p.Cron = n.Text
		if _, err := cron.Parse(p.Cron, ""); err != nil {
			d.failf(n, "%v", err)
		}
	}
	if n := c.get("until_input_path"); c.is(n, Text) {
		forms++
		if !dotted.MatchString(n.Text) {
			d.failf(n, "it must be a path such as order.deadline, got %.40q", n.Text)
		} else if e := d.compile(n, path("input."+n.Text, "", []string{"input"}), d.scope()); e != nil {
			p.Until = &Value{whole: e, dynamic: true}
		}
	}
	if forms != 1 {
		c.missing("a sleep needs exactly one of duration, cron and until_input_path, got %d", forms)
	}
}

func (d *decoder) dagnatsEvent(c *object, s *Step) {
	s.Signal = c.name("event")
	if s.Signal == "" && !c.has("event") {
		c.missing("it needs the name of an event")
	}
	s.Continue = true
	s.TimeoutMs = c.goDuration(maxWaitMs, "timeout")
	if s.TimeoutMs == 0 {
		c.missing("it needs a timeout of more than 0")
	}
	n := c.get("match")
	if n == nil {
		c.missing("it needs a match")
		return
	}
	m := d.object(n, "match")
	left, right := m.text(expression.MaxBytes, "left"), m.text(expression.MaxBytes, "right")
	m.choice("eq", []string{"eq"}, "op")
	m.done()
	if !dotted.MatchString(left) {
		d.failf(n, "left must be a path such as order.id, got %.40q", left)
		return
	}
	step, inStep := strings.CutPrefix(right, "step.")
	switch {
	case inStep && strings.Count(step, ".") >= 2:
		parts := strings.SplitN(step, ".", 3)
		right = path(parts[2], "steps["+strconv.Quote(parts[0])+"]?.output", nil)
	case strings.HasPrefix(right, "input.") && dotted.MatchString(right):
		right = path(right, "", []string{"input"})
	default:
		d.failf(n, "right must begin with input. or step.NAME.output., got %.40q", right)
		return
	}
	left = path(left, "event", nil)
	s.Where = d.compile(n, left+" != nil && "+left+" == "+right, d.scope("event"))
}

func (d *decoder) dagnatsApproval(c *object, s *Step) {
	s.Signal = s.Name
	s.TimeoutMs = c.goDuration(maxDagNatsApprovalMs, "timeout")
	if s.TimeoutMs == 0 {
		c.missing("an approval needs a timeout of more than 0")
	}
	s.Topic = c.name("subject")
	if s.Topic == "" && !c.has("subject") {
		c.missing("an approval needs a subject")
	}
	s.Prompt = &Value{constant: c.text(maxDescriptionChars, "description")}
	if m := c.get("metadata"); m != nil {
		s.Config = &Value{constant: m.Value()}
	}
}

// respond reads a step that answers a request. The answer becomes output of the run.
func (d *decoder) respond(c *object, s *Step) {
	s.Topic = "response"
	body := "input"
	switch len(s.After) {
	case 0:
	case 1:
		body = "steps[" + strconv.Quote(s.After[0]) + "]?.output"
	default:
		var all []string
		for _, name := range s.After {
			all = append(all, strconv.Quote(name)+": steps["+strconv.Quote(name)+"]?.output")
		}
		body = "{" + strings.Join(all, ", ") + "}"
	}
	if n := c.get("body_from"); c.is(n, Text) && n.Text != "" {
		if !dotted.MatchString(n.Text) {
			d.failf(n, "it must be a path, got %.40q", n.Text)
			return
		}
		body = path(n.Text, "("+body+")", nil)
	}
	at := &Node{Place: c.n.Place, Line: c.n.Line}
	e := d.compile(at, body, d.scope())
	if e == nil {
		return
	}
	s.Config = &Value{dynamic: true}
	s.Config.add("status", &Value{constant: c.integer(100, 599, 200, "status")})
	contentType := c.text(maxNameChars, "content_type")
	if contentType == "" {
		contentType = "application/json"
	}
	s.Config.add("content_type", &Value{constant: contentType})
	if n := c.get("headers"); n != nil && c.is(n, Object) {
		s.Config.add("headers", &Value{constant: n.Value()})
	}
	s.Config.add("body", &Value{whole: e, dynamic: true})
}

// parentCondition reads a condition on a field of another step's output. The condition is false if the types cannot be
// compared.
func (d *decoder) parentCondition(n *Node) *expression.Expression {
	if n == nil {
		return nil
	}
	o := d.object(n, "skip_if")
	step, field := o.name("step_id"), o.text(maxNameChars, "field")
	op := o.choice("==", []string{"==", "!=", "<", ">", "<=", ">="}, "op")
	value := o.get("value")
	o.done()
	if value == nil {
		o.missing("it needs a value")
		return nil
	}
	left := "steps[" + strconv.Quote(step) + "]?.output?.[" + strconv.Quote(field) + "]"
	var like string
	switch value.Kind {
	case Number:
		like = `type(` + left + `) in ["int", "float"]`
	case Text:
		like = `type(` + left + `) == "string"`
	case Bool:
		like = `type(` + left + `) == "bool"`
		if op != "==" && op != "!=" {
			like = "false"
		}
	default:
		d.failf(value, "it must be a text, a number or a boolean, got %s", value.Kind)
		return nil
	}
	literal := value.Text
	if value.Kind == Text {
		literal = strconv.Quote(value.Text)
	}
	if like == "false" {
		return d.compile(n, "false", d.scope())
	}
	return d.compile(n, like+" && "+left+" "+op+" "+literal, d.scope())
}
