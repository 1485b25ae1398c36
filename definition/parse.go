package definition

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/definition/expression"
)

// Limits of a definition.
const (
	maxVersionChars     = 50
	maxDescriptionChars = 1000
	// maxSteps limits the number of steps: the journal of a run has at most 50,000 entries.
	maxSteps = 1000
	// maxVars limits the number of vars.
	maxVars = 100
	// maxSchemaBytes is the longest schema that the host accepts.
	maxSchemaBytes = 64 << 10
	// maxParallel is the largest number, and the default, of nodes that are performed at a time.
	maxParallel = 100
	// maxWork limits the work of reading a definition, in bytes of JSON. The interpreter reads it with the 1,000,000,000 units
	// of fuel for the start of a module. A byte costs up to 5,600 units. A part of an expression costs up to 160,000 units,
	// and counts as partWork bytes.
	maxWork = 160_000
	// partWork is the work for an expression, and for each value, name, operator and call in it.
	partWork = 30
	// maxPatterns limits the instructions of the constant patterns in all expressions, for the same reason.
	maxPatterns = 20_000
	// maxWaitMs is ten years.
	maxWaitMs = 3653 * 24 * 3600 * 1000
)

// ParseJSON reads a definition in JSON. Errors are of type Faults.
func ParseJSON(text []byte) (*Definition, error) {
	n, err := ReadJSON(text)
	if err != nil {
		return nil, AsFaults(err)
	}
	return Parse(n)
}

// AsFaults converts an error of a reader or of Parse to Faults.
func AsFaults(err error) Faults {
	if all, ok := errors.AsType[Faults](err); ok {
		return all
	}
	if f, ok := errors.AsType[*Fault](err); ok {
		return Faults{f}
	}
	return Faults{{Line: 1, Message: err.Error()}}
}

// Option adds a check to Parse.
type Option func(*decoder)

// CheckSchemas sets a function that checks each JSON Schema, including the schema of the payload of an approval. Its errors
// become faults. Without it, a definition may have schemas that an upload refuses. host.SchemaSet.Add is such a function.
func CheckSchemas(check func(text []byte) error) Option {
	return func(d *decoder) { d.checkSchema = check }
}

// Parse reads a definition from a tree. Errors are of type Faults.
func Parse(n *Node, opts ...Option) (*Definition, error) {
	d := &decoder{d: &Definition{MaxParallel: maxParallel}, checkSchema: func([]byte) error { return nil }}
	for _, o := range opts {
		o(d)
	}
	o := d.object(n, "a definition")
	steps, nodes := o.get("steps"), o.get("nodes")
	switch {
	case n.Kind != Object:
	case steps != nil && nodes != nil:
		d.failf(nodes, "a definition has steps, which follow each other, or nodes, which make a graph; this one has both")
	case nodes != nil:
		d.d.Graph = true
		d.native(o, nodes)
	case steps == nil:
		d.failf(n, "a definition needs steps, which follow each other, or nodes, which make a graph")
	case isDagNats(steps):
		d.d.Graph = true
		d.dagnats(o, steps)
	default:
		d.native(o, steps)
	}
	if len(d.faults) == 0 {
		d.connect()
	}
	if len(d.faults) == 0 {
		d.checkSize(n)
	}
	if len(d.faults) > 0 {
		slices.SortStableFunc(d.faults, func(a, b *Fault) int { return a.Line - b.Line })
		return nil, d.faults
	}
	return d.d, nil
}

// checkSize reports a definition that is too large.
func (d *decoder) checkSize(n *Node) {
	switch size := len(n.JSON()); {
	case size > MaxBytes:
		d.failf(n, "the definition has %d bytes as JSON, the limit is %d", size, MaxBytes)
	case size+d.parts*partWork > maxWork:
		d.failf(n, "the definition has %d bytes as JSON, and its expressions have %d parts (values, names, operators, calls, and one "+
			"for each expression); a part counts as %d bytes, and the limit of both together is %d", size, d.parts, partWork, maxWork)
	}
}

// head reads the fields that all forms have.
func (d *decoder) head(o *object) {
	o.get("$schema") // for editors, not used
	if n := o.get("name"); n == nil {
		o.missing("a definition needs a name, which is that of the workflow")
	} else if o.is(n, Text) {
		if err := abi.CheckWorkflow(n.Text); err != nil {
			d.failf(n, "%s", plainError(err))
		}
		d.d.Name = n.Text
	}
	d.d.Version = o.text(maxVersionChars, "version")
	d.d.Description = o.text(maxDescriptionChars, "description")
	d.d.InputSchema = d.schema(o.get("input_schema", "inputSchema"))
	d.d.OutputSchema = d.schema(o.get("output_schema", "outputSchema"))
}

// schema returns a JSON Schema as text.
func (d *decoder) schema(n *Node) []byte {
	if n == nil {
		return nil
	}
	if n.Kind != Object && n.Kind != Bool {
		d.failf(n, "a JSON Schema must be an object or a boolean, got %s", n.Kind)
		return nil
	}
	text := n.JSON()
	if len(text) > maxSchemaBytes {
		d.failf(n, "the schema has %d bytes, the limit is %d", len(text), maxSchemaBytes)
		return nil
	}
	if err := d.checkSchema(text); err != nil {
		d.failf(n, "%v", err)
	}
	return text
}

// native reads a list of steps, or a graph of nodes.
func (d *decoder) native(o *object, steps *Node) {
	d.head(o)
	d.d.TimeoutMs = o.duration(1, maxWaitMs, "timeout")
	if d.d.Graph {
		d.d.MaxParallel = o.integer(1, maxParallel, maxParallel, "max_parallel")
	}
	retry := d.retry(o.get("retry"))
	if n := o.get("vars"); n != nil {
		vars := d.object(n, "vars")
		if len(vars.n.Members) > maxVars {
			d.failf(n, "there are %d vars, the limit is %d", len(vars.n.Members), maxVars)
		}
		for _, m := range vars.n.Members {
			d.d.Vars = append(d.d.Vars, Var{m.Key, d.value(m.Value, []string{"input", "run"})})
		}
	}
	for _, n := range d.items(steps) {
		s := d.step(n)
		if s.Retry == nil {
			s.Retry = retry
		}
		d.d.Steps = append(d.d.Steps, s)
	}
	if n := o.get("result"); n != nil {
		d.reads = nil
		d.d.Result = d.value(n, d.scope())
		d.results = d.reads
	}
	o.done()
}

// items returns the elements of the list of steps.
func (d *decoder) items(n *Node) []*Node {
	switch {
	case n.Kind != List:
		d.failf(n, "it must be a list, got %s", n.Kind)
		return nil
	case len(n.Items) == 0:
		d.failf(n, "it must have one step at least")
	case len(n.Items) > maxSteps:
		d.failf(n, "there are %d steps, the limit is %d", len(n.Items), maxSteps)
		return nil
	}
	return n.Items
}

// scope returns the names that expressions of steps may use, and the names in more.
func (d *decoder) scope(more ...string) []string {
	names := []string{"input", "vars", "steps", "run", "error"}
	if !d.d.Graph {
		names = append(names, "state")
	}
	return append(names, more...)
}

// expression compiles the expression in a field, which may be in "${…}". It returns nil if there is none.
func (o *object) expression(names []string, fields ...string) *expression.Expression {
	n := o.get(fields...)
	if !o.is(n, Text) {
		return nil
	}
	text := strings.TrimSpace(n.Text)
	if inner, ok := strings.CutPrefix(text, "${"); ok && closing(inner) == len(inner)-1 {
		text = inner[:len(inner)-1]
	}
	return o.d.compile(n, text, names)
}

// dotted matches a path such as user.active.
var dotted = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$`)

// path returns an expression that reads a dot path, and is null if there is no value. If the path does not begin with one of
// names, it is relative to into.
func path(text, into string, names []string) string {
	parts := strings.Split(text, ".")
	if slices.Contains(names, parts[0]) {
		into, parts = parts[0], parts[1:]
	}
	for _, p := range parts {
		into += "?.[" + strconv.Quote(p) + "]"
	}
	return into
}

// retry reads the retry policy of a step, with the names of the SDK or of Stevora.
func (d *decoder) retry(n *Node) *Retry {
	if n == nil {
		return nil
	}
	o := d.object(n, "retry")
	r := &Retry{
		Attempts:     o.integer(1, 1000, 3, "attempts"),
		DelayMs:      o.either(0, maxWaitMs, "delay", "backoffMs"),
		Backoff:      o.choice("exponential", []string{"fixed", "linear", "exponential"}, "backoff"),
		Factor:       o.number(1, 1000, 2, "factor", "backoffMultiplier"),
		MaxDelayMs:   o.either(0, maxWaitMs, "max_delay", "maxBackoffMs"),
		MaxElapsedMs: o.duration(1, maxWaitMs, "max_elapsed"),
	}
	if n := o.get("maxAttempts"); n != nil {
		r.Attempts = o.integer(1, 20, 3, "maxAttempts")
		if o.has("attempts") {
			d.failf(n, `"maxAttempts" says the same as "attempts", and both are there`)
		}
	}
	if !o.has("delay") && !o.has("backoffMs") {
		r.DelayMs = 1000
	}
	switch n := o.get("jitter"); {
	case n == nil:
	case n.Kind == Bool:
		if n.Text == "true" {
			r.Jitter = 0.5
		}
	default:
		r.Jitter = o.number(0, 1, 0, "jitter")
	}
	o.done()
	return r
}
