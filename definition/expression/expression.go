// Package expression is the language of the expressions in definitions: github.com/expr-lang/expr, without what would
// differ from one evaluation to the next, and within bounds. An expression reads values and returns one. It has no way to
// change anything, to name a function that is not built in, or to loop without end.
package expression

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"
)

// Limits of an expression.
const (
	// MaxBytes bounds the text of one: what is longer belongs into a handler.
	MaxBytes = 4096
	// maxNodes bounds what it is parsed to.
	maxNodes = 1000
	// maxElements bounds the elements of the lists and maps that one evaluation makes, which is what it allocates.
	maxElements = 100_000
	// maxValues bounds the values in a result, each counted where it stands: a list that holds another one twice, ten times
	// over, is a small value until somebody writes it. The largest input has half as many.
	maxValues = 1_000_000
	// maxDepth bounds how deep a result is nested, as that of inputs is.
	maxDepth = 500
)

// Expression is one that has been compiled. It may be evaluated by several goroutines at a time.
type Expression struct {
	text     string
	program  *vm.Program
	steps    []string
	computed bool
	parts    int
	patterns int
}

// Compile compiles an expression that may use the given names, such as "input". The error is a sentence that says what is
// wrong, and where in the text.
func Compile(text string, names []string) (*Expression, error) {
	switch {
	case len(text) > MaxBytes:
		return nil, fmt.Errorf("the expression has %d bytes, the limit is %d", len(text), MaxBytes)
	case !utf8.ValidString(text):
		return nil, errors.New("the expression is not UTF-8")
	case strings.TrimSpace(text) == "":
		return nil, errors.New("the expression is empty")
	}
	refs, counted := &references{}, &patterns{}
	p, err := compile(text, names, refs, counted)
	if err != nil {
		return nil, fmt.Errorf("the expression %q: %w", shown(text), sentence(err))
	}
	if counted.instructions > maxProgram {
		return nil, fmt.Errorf("the expression %q: its patterns have more than %d instructions", shown(text), maxProgram)
	}
	slices.Sort(refs.steps)
	return &Expression{text: text, program: p, steps: slices.Compact(refs.steps), computed: refs.computed != 0,
		parts: refs.parts, patterns: counted.instructions}, nil
}

// Parts returns how many values, names, operators and calls the expression consists of, at most 1,000.
func (e *Expression) Parts() int { return e.parts }

// Patterns returns about how many instructions the constant patterns of the expression are compiled to, at most 20,000.
func (e *Expression) Patterns() int { return e.patterns }

// Steps returns the names that the expression reads from steps, as in steps.NAME or steps["NAME"], sorted.
func (e *Expression) Steps() []string { return e.steps }

// AnyStep reports whether the expression reads from steps in another way, so that the names are not known: steps[input.name].
func (e *Expression) AnyStep() bool { return e.computed }

// String returns the text of the expression.
func (e *Expression) String() string { return e.text }

// Eval returns the value of the expression: nil, a bool, an int, a float64, a json.Number that is as its input had it, a
// string, or a []any or map[string]any of these. The values in env are of the same types.
func (e *Expression) Eval(env map[string]any) (any, error) {
	machine := vm.VM{MemoryBudget: maxElements}
	v, err := machine.Run(e.program, env)
	if err == nil {
		v, err = Plain(v)
	}
	if err != nil {
		return nil, fmt.Errorf("the expression %q: %w", shown(e.text), sentence(err))
	}
	return v, nil
}

// Decode returns a value of JSON as Eval takes it. No text is nil.
func Decode(text []byte) (any, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil //nolint:nilnil // that is its value
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return numbers(v), nil
}

// numbers replaces numbers as they are written by those that Number returns.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		return Number(v.String())
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}

// Truth reports whether a value counts as true: everything but nil, false, 0 and "".
func Truth(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case int:
		return v != 0
	case float64:
		return v != 0
	}
	return true
}

// references collects the steps that an expression names, and counts where it reads steps without a name, and its parts.
type references struct {
	steps    []string
	computed int
	parts    int // of the expression
}

// Visit implements ast.Visitor.
func (r *references) Visit(node *ast.Node) {
	r.parts++
	if i, ok := (*node).(*ast.IdentifierNode); ok && (i.Value == "steps" || i.Value == "$env") {
		r.computed++ // unless it is that of a member, which is visited next
	}
	m, ok := (*node).(*ast.MemberNode)
	if !ok {
		return
	}
	of, ok := m.Node.(*ast.IdentifierNode)
	if !ok || of.Value != "steps" {
		return
	}
	if name, ok := m.Property.(*ast.StringNode); ok {
		r.steps = append(r.steps, name.Value)
		r.computed--
	}
}

// sorted returns a function of a map whose result is in the order of the keys: Go's own is another one each time.
func sorted(of func(key string, value any) any) func(params ...any) (any, error) {
	return func(params ...any) (any, error) {
		if len(params) != 1 {
			return nil, fmt.Errorf("a map is needed, got %d values", len(params))
		}
		v, err := Plain(params[0])
		if err != nil {
			return nil, err
		}
		m, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("a map is needed, got %s", kindOf(v))
		}
		list := make([]any, 0, len(m))
		for _, k := range slices.Sorted(maps(m)) {
			list = append(list, of(k, m[k]))
		}
		return list, nil
	}
}

func maps(m map[string]any) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// maxShown bounds what of an expression stands in an error.
const maxShown = 80

func shown(text string) string {
	if len(text) <= maxShown {
		return text
	}
	n := maxShown
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// sentence returns what an error of the library says, on one line.
func sentence(err error) error {
	var e *file.Error
	if !errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("%s (line %d, column %d)", strings.Join(strings.Fields(e.Message), " "), max(e.Line, 1), e.Column+1)
}

// Plain returns a value as one of the types that Eval returns. Instants and durations become text, and bytes become
// base64. A number that JSON does not have is an error, as is a value that is nested too deeply.
func Plain(v any) (any, error) { return (&plain{}).of(v, 0) }

// plain counts the values that it has made.
type plain struct{ made int }

func (p *plain) of(v any, depth int) (any, error) {
	p.made++
	switch {
	case depth > maxDepth:
		return nil, fmt.Errorf("the value is nested more than %d levels deep", maxDepth)
	case p.made > maxValues:
		return nil, fmt.Errorf("the result has more than %d values", maxValues)
	}
	switch v := v.(type) {
	case nil, bool, string, int, json.Number:
		return v, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("the result is %v, which is no number in JSON", v)
		}
		return v, nil
	case time.Time:
		return v.Format(time.RFC3339Nano), nil
	case time.Duration:
		return v.String(), nil
	case []byte:
		return base64.StdEncoding.EncodeToString(v), nil
	}
	r := reflect.ValueOf(v)
	switch {
	case r.CanInt():
		return int(r.Int()), nil
	case r.CanUint():
		if r.Uint() > math.MaxInt64 {
			return nil, fmt.Errorf("the whole number %d does not fit into 64 bits", r.Uint())
		}
		return int(r.Uint()), nil
	case r.CanFloat():
		return p.of(r.Float(), depth)
	case r.Kind() == reflect.String:
		return r.String(), nil
	case r.Kind() == reflect.Slice, r.Kind() == reflect.Array:
		list := make([]any, r.Len())
		for i := range list {
			of, err := p.of(r.Index(i).Interface(), depth+1)
			if err != nil {
				return nil, err
			}
			list[i] = of
		}
		return list, nil
	case r.Kind() == reflect.Map:
		m := make(map[string]any, r.Len())
		for it := r.MapRange(); it.Next(); {
			k, ok := it.Key().Interface().(string)
			if !ok {
				k = fmt.Sprint(it.Key().Interface()) // groupBy makes keys of any values
			}
			of, err := p.of(it.Value().Interface(), depth+1)
			if err != nil {
				return nil, err
			}
			m[k] = of
		}
		return m, nil
	}
	return nil, fmt.Errorf("the result is %s, which is no value of JSON", kindOf(v))
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	}
	return fmt.Sprintf("a %T", v)
}
