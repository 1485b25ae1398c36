package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm/runtime"
)

// The library computes with integers as Go does: results that do not fit wrap around, and comparisons with a float64 round. So
// operators whose operands may be numbers are replaced by calls of the functions below. Expressions cannot contain the names of
// these functions.

// exact makes operators and functions compute exactly or fail. It implements ast.Visitor.
type exact struct{}

// checkedArguments maps functions of the library to the function that checks their arguments.
var checkedArguments = map[string]string{"int": "check int", "abs": "check abs",
	"float": "check float", "ceil": "check float", "floor": "check float", "round": "check float", "mean": "check float",
	"median": "check float", "max": "check mixed", "min": "check mixed", "sort": "check mixed"}

// Visit replaces operators, and wraps the arguments of functions in checks.
func (exact) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		if _, text := constant(n); !text && mayBeNumber(n.Left) && mayBeNumber(n.Right) && operators[n.Operator] != nil {
			ast.Patch(node, call("operator "+n.Operator, n.Left, n.Right))
		}
	case *ast.UnaryNode:
		if _, literal := n.Node.(*ast.IntegerNode); n.Operator == "-" && !literal && mayBeNumber(n.Node) {
			ast.Patch(node, call("negate", n.Node))
		}
	case *ast.BuiltinNode:
		if n.Name == "sum" && len(n.Arguments) > 0 {
			list := n.Arguments[0]
			if len(n.Arguments) == 2 {
				list = &ast.BuiltinNode{Name: "map", Arguments: n.Arguments}
				list.SetLocation(n.Location())
			}
			ast.Patch(node, call("sum", list))
			return
		}
		if check := checkedArguments[n.Name]; check != "" {
			for i, arg := range n.Arguments {
				if n.Name == "sort" && i > 0 {
					break
				}
				checked := call(check, arg)
				checked.SetLocation(arg.Location())
				n.Arguments[i] = checked
			}
		}
	}
}

func call(name string, args ...ast.Node) ast.Node {
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: hidden + name}, Arguments: args}
}

// hidden begins the names of functions that no expression can name.
const hidden = " "

// mayBeNumber reports whether a node is a number or has a type that the library does not know.
func mayBeNumber(n ast.Node) bool {
	if n.Nature().IsUnknown(nil) {
		return true
	}
	t := n.Type()
	if t == nil {
		return false // nil
	}
	switch t.Kind() {
	case reflect.Interface, reflect.Int, reflect.Int64, reflect.Int32, reflect.Uint8, reflect.Float64, reflect.Float32:
		return true
	}
	return false
}

// operators maps the replaced operators to functions. The functions accept operands of any type.
var operators = map[string]func(a, b any) (any, error){
	"+": func(a, b any) (any, error) { return computed("+", a, b, runtime.Add) },
	"-": func(a, b any) (any, error) { return computed("-", a, b, runtime.Subtract) },
	"*": func(a, b any) (any, error) { return computed("*", a, b, runtime.Multiply) },
	"/": func(a, b any) (any, error) {
		return computed("/", a, b, func(a, b any) any { return runtime.Divide(a, b) })
	},
	"**": func(a, b any) (any, error) {
		return computed("**", a, b, func(a, b any) any { return runtime.Exponent(a, b) })
	},
	"^": func(a, b any) (any, error) {
		return computed("**", a, b, func(a, b any) any { return runtime.Exponent(a, b) })
	},
	"==": func(a, b any) (any, error) { return equal(a, b) },
	"!=": func(a, b any) (any, error) {
		is, err := equal(a, b)
		return !is, err
	},
	"<": func(a, b any) (any, error) { return ordered(a, b, runtime.Less, func(c int) bool { return c < 0 }) },
	"<=": func(a, b any) (any, error) {
		return ordered(a, b, runtime.LessOrEqual, func(c int) bool { return c <= 0 })
	},
	">": func(a, b any) (any, error) { return ordered(a, b, runtime.More, func(c int) bool { return c > 0 }) },
	">=": func(a, b any) (any, error) {
		return ordered(a, b, runtime.MoreOrEqual, func(c int) bool { return c >= 0 })
	},
}

// computed computes + - * / and ** of two integers exactly. For all other operands it calls others, a function of the
// library. It returns an error for an integer beyond 2^53 if the other operand is a float64.
func computed(op string, a, b any, others func(a, b any) any) (any, error) {
	i, _, intA, numberA, err := operand(a)
	j, _, intB, numberB, err2 := operand(b)
	err = errors.Join(err, err2)
	if err != nil {
		return nil, err
	}
	switch {
	case !numberA || !numberB, !intA && !intB:
	case intA && intB && op == "/":
		return quotient(i, j)
	case intA && intB && op == "**":
		return power(i, j)
	case intA && intB:
		return arithmetic(op, i, j)
	case intA:
		if _, err := asFloat(i); err != nil {
			return nil, err
		}
	default:
		if _, err := asFloat(j); err != nil {
			return nil, err
		}
	}
	return others(a, b), nil
}

// equal reports whether two values are equal. Two numbers that do not fit into 64 bits are equal if they are written alike;
// otherwise equal returns an error.
func equal(a, b any) (bool, error) {
	x, kept := a.(json.Number)
	y, also := b.(json.Number)
	switch {
	case kept && also && x != y:
		return false, unfit(x)
	case kept || also:
		return kept && also, nil
	}
	i, f, intA, numberA, _ := operand(a) // not a json.Number, so there is no error
	j, g, intB, numberB, _ := operand(b)
	switch {
	case !numberA || !numberB || intA == intB:
		return runtime.Equal(a, b), nil
	case intA:
		return compareMixed(i, g) == 0 && g == g, nil
	}
	return compareMixed(j, f) == 0 && f == f, nil
}

func ordered(a, b any, others func(a, b any) bool, is func(c int) bool) (bool, error) {
	i, f, intA, numberA, err := operand(a)
	j, g, intB, numberB, err2 := operand(b)
	switch err = errors.Join(err, err2); {
	case err != nil:
		return false, err
	case !numberA || !numberB || intA == intB || math.IsNaN(f) || math.IsNaN(g):
		return others(a, b), nil
	case intA:
		return is(compareMixed(i, g)), nil
	}
	return is(-compareMixed(j, f)), nil
}

// operatorFunctions adds the functions for operators.
func operatorFunctions(list []expr.Option) []expr.Option {
	for op, of := range operators {
		two := func(params ...any) (any, error) { return of(params[0], params[1]) }
		switch op {
		case "==", "!=", "<", "<=", ">", ">=":
			list = append(list, expr.Function(hidden+"operator "+op, two, new(func(a, b any) bool)))
		default:
			list = append(list, expr.Function(hidden+"operator "+op, two))
		}
	}
	return list
}

// functions returns the options for all hidden functions.
func functions() (list []expr.Option) {
	add := func(name string, of func(v any) (any, error)) {
		list = append(list, expr.Function(hidden+name, func(params ...any) (any, error) { return of(params[0]) }))
	}
	list = operatorFunctions(list)
	add("negate", func(v any) (any, error) {
		i, _, isInt, _, err := operand(v)
		switch {
		case err != nil:
			return nil, err
		case isInt:
			return arithmetic("-", 0, i)
		}
		return runtime.Negate(v), nil
	})
	add("sum", func(v any) (any, error) {
		r := reflect.ValueOf(v)
		if v == nil || r.Kind() != reflect.Slice && r.Kind() != reflect.Array {
			return nil, fmt.Errorf("sum needs a list, got %s", kindOf(v))
		}
		var total any = 0
		for i := range r.Len() {
			var err error
			total, err = operators["+"](total, r.Index(i).Interface())
			if err != nil {
				return nil, err
			}
		}
		return total, nil
	})
	addChecks(add)
	list = append(list, expr.DisableBuiltin("fromJSON"), expr.Function("fromJSON", func(params ...any) (any, error) {
		text, ok := params[0].(string)
		if len(params) != 1 || !ok {
			return nil, errors.New("fromJSON needs one text")
		}
		return Decode([]byte(text))
	}, new(func(string) any)))
	return list
}

// addChecks adds the functions that check arguments.
func addChecks(add func(name string, of func(v any) (any, error))) {
	add("check int", func(v any) (any, error) {
		_, f, isInt, number, err := operand(v)
		if err == nil && number && !isInt && !(f >= math.MinInt64 && f < -math.MinInt64) {
			err = fmt.Errorf("int(%v) does not fit into 64 bits", f)
		}
		return v, err
	})
	add("check abs", func(v any) (any, error) {
		i, _, isInt, _, err := operand(v)
		if err == nil && isInt && i == math.MinInt64 {
			err = fmt.Errorf("abs(%d) does not fit into 64 bits", i)
		}
		return v, err
	})
	add("check float", func(v any) (any, error) {
		return v, eachNumber(v, func(i int) error { _, err := asFloat(i); return err })
	})
	add("check mixed", func(v any) (any, error) {
		fractions := false
		list, _ := v.([]any)
		for _, x := range list {
			_, is := x.(float64)
			fractions = fractions || is
		}
		return v, eachNumber(v, func(i int) error {
			if !fractions {
				return nil
			}
			_, err := asFloat(i)
			return err
		})
	})
}

// eachNumber calls check for an integer, or for each integer in a list. It returns an error for a json.Number, with which
// expressions cannot compute.
func eachNumber(v any, check func(i int) error) error {
	if list, ok := v.([]any); ok {
		for _, x := range list {
			if err := eachNumber(x, check); err != nil {
				return err
			}
		}
		return nil
	}
	i, _, isInt, _, err := operand(v)
	if err == nil && isInt {
		err = check(i)
	}
	return err
}
