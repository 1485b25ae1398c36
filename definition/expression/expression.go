// Package expression implements the language of expressions in definitions: github.com/expr-lang/expr, with limits and
// without functions that are not deterministic. An expression reads values and returns a value. It cannot change values,
// call functions that are not built in, or loop forever.
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
	// MaxBytes limits the text of an expression. Longer code belongs in a handler.
	MaxBytes = 4096
	// maxNodes limits the nodes of its syntax tree.
	maxNodes = 1000
	// maxElements limits the elements of the lists and maps that one evaluation makes, and so its memory.
	maxElements = 100_000
	// maxValues limits the values in a result. Shared values count at each place: a list that holds another list twice, ten
	// levels deep, is small in memory, but large in JSON. The largest input has half as many values.
	maxValues = 1_000_000
	// maxDepth limits the nesting of a result. Inputs have the same limit.
	maxDepth = 500
)

// Expression is a compiled expression. Several goroutines may evaluate it at the same time.
type Expression struct {
	text     string
	program  *vm.Program
	steps    []string
	computed bool
	parts    int
	patterns int
}

// Compile compiles an expression that may use the given names, such as "input". The error is a sentence with the position in
// the text.
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

// Parts returns the number of values, names, operators and calls in the expression, at most 1,000.
func (e *Expression) Parts() int { return e.parts }

// Patterns returns the approximate number of instructions of the expression's constant patterns, at most 20,000.
func (e *Expression) Patterns() int { return e.patterns }

// Steps returns the names of the steps that the expression reads, as in steps.NAME or steps["NAME"], sorted.
func (e *Expression) Steps() []string { return e.steps }

// AnyStep reports whether the expression reads steps whose names are not constant, as in steps[input.name].
func (e *Expression) AnyStep() bool { return e.computed }

// String returns the text of the expression.
func (e *Expression) String() string { return e.text }

// Eval returns the value of the expression: nil, a bool, an int, a float64, a json.Number that is unchanged from the input, a
// string, or a []any or map[string]any of these. The values in env must have the same types.
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

// Decode parses JSON to a value for Eval. For an empty text it returns nil.
func Decode(text []byte) (any, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil //nolint:nilnil // nil is the value of an empty text
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return numbers(v), nil
}

// numbers replaces each json.Number in a value by the result of Number.
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

// references collects the steps that an expression names. It counts the reads without a constant name, and the parts.
type references struct {
	steps    []string
	computed int
	parts    int // of the expression
}

// Visit implements ast.Visitor.
func (r *references) Visit(node *ast.Node) {
	r.parts++
	if i, ok := (*node).(*ast.IdentifierNode); ok && (i.Value == "steps" || i.Value == "$env") {
		r.computed++ // reverted if its member, which is visited next, has a constant name
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

// sorted returns a function of a map with a result in the order of the keys: Go's order of iteration is random.
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

// maxShown is the longest part of an expression in an error.
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

// sentence returns an error of the library on one line.
func sentence(err error) error {
	var e *file.Error
	if !errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("%s (line %d, column %d)", strings.Join(strings.Fields(e.Message), " "), max(e.Line, 1), e.Column+1)
}

// Plain converts a value to the types that Eval returns. Instants and durations become text, and bytes become base64. It
// returns an error for a number that JSON does not have, and for a value that is nested too deeply.
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
				k = fmt.Sprint(it.Key().Interface()) // groupBy makes keys of any type
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
