package definition

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/wfhost/wfhost/definition/expression"
)

// Value is a JSON value with expressions in its texts: "${input.email}" is the value of the expression, with its type;
// "Dear ${input.name}" is a text; "$${" is "${".
type Value struct {
	constant any // the value, if it has no expressions
	whole    *expression.Expression
	parts    []part // of a text
	items    []*Value
	keys     []string // of items, for an object
	dynamic  bool
}

type part struct {
	text string
	of   *expression.Expression
}

// value compiles a node.
func (d *decoder) value(n *Node, names []string) *Value {
	v := &Value{}
	switch n.Kind {
	case Text:
		d.template(v, n, names)
	case List, Object:
		for _, item := range n.Items {
			v.add("", d.value(item, names))
		}
		for _, m := range n.Members {
			v.add(m.Key, d.value(m.Value, names))
		}
		if n.Kind == List {
			v.keys = nil
		}
		if !v.dynamic {
			v.constant, _ = v.collect(n.Kind == List, nil)
			v.items, v.keys = nil, nil
		}
	case Number:
		v.constant = n.Value()
		if err := expression.CheckNumber(n.Text); err != nil {
			d.failf(n, "%v", err)
		}
	default:
		v.constant = n.Value()
	}
	return v
}

func (v *Value) add(key string, of *Value) {
	v.items, v.keys = append(v.items, of), append(v.keys, key)
	v.dynamic = v.dynamic || of.dynamic
}

// template compiles a text.
func (d *decoder) template(v *Value, n *Node, names []string) {
	rest, literal := n.Text, ""
	for rest != "" {
		i := strings.Index(rest, "${")
		if i < 0 {
			break
		}
		if i > 0 && rest[i-1] == '$' { // an escape: $${
			literal, rest = literal+rest[:i-1]+"${", rest[i+2:]
			continue
		}
		end := closing(rest[i+2:])
		if end < 0 {
			d.failf(n, "the expression that begins at ${ has no end; a text that has ${ in it is written $${")
			return
		}
		e := d.compile(n, rest[i+2:i+2+end], names)
		if e == nil {
			return
		}
		v.dynamic = true
		v.parts = append(v.parts, part{text: literal + rest[:i], of: e})
		literal, rest = "", rest[i+2+end+1:]
	}
	switch rest = literal + rest; {
	case !v.dynamic:
		v.constant = rest
	case len(v.parts) == 1 && v.parts[0].text == "" && rest == "":
		v.whole = v.parts[0].of
	default:
		v.parts = append(v.parts, part{text: rest})
	}
}

// closing returns the index of the brace that closes an expression, -1 if there is none. It skips braces in texts and the
// braces of maps.
func closing(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"', '\'', '`':
			for i++; i < len(s) && s[i] != c; i++ {
				if s[i] == '\\' && c != '`' {
					i++
				}
			}
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return -1
}

// compile compiles an expression. If that fails, it reports a fault and returns nil. Expressions beyond the limits of a
// definition are not compiled, and are one fault together.
func (d *decoder) compile(n *Node, text string, names []string) *expression.Expression {
	if d.parts*partWork > maxWork || d.patterns > maxPatterns {
		return nil
	}
	e, err := expression.Compile(text, names)
	if err != nil {
		d.parts++ // the failed compilation costs work, too
		d.failf(n, "%v", err)
		return nil
	}
	d.parts, d.patterns = d.parts+1+e.Parts(), d.patterns+e.Patterns()
	switch {
	case d.parts*partWork > maxWork:
		d.failf(n, "the expressions up to this one have more than %d parts, the limit of a definition: values, names, operators, "+
			"calls, and one for each expression", maxWork/partWork)
		return nil
	case d.patterns > maxPatterns:
		d.failf(n, "the patterns of the expressions up to this one have more than %d instructions, the limit of a definition",
			maxPatterns)
		return nil
	}
	d.reads = append(d.reads, reading{n, e.Steps(), e.AnyStep()})
	return e
}

// Eval evaluates the expressions and returns the value. The values in env and the result have the types of
// Expression.Eval.
func (v *Value) Eval(env map[string]any) (any, error) {
	switch {
	case v == nil:
		return nil, nil
	case !v.dynamic:
		return v.constant, nil
	case v.whole != nil:
		return v.whole.Eval(env)
	case v.parts != nil:
		return v.text(env)
	}
	return v.collect(v.keys == nil, env)
}

// collect evaluates the parts of a list or an object.
func (v *Value) collect(list bool, env map[string]any) (any, error) {
	all, m := make([]any, len(v.items)), make(map[string]any, len(v.items))
	for i, item := range v.items {
		of, err := item.Eval(env)
		if err != nil {
			return nil, err
		}
		if list {
			all[i] = of
		} else {
			m[v.keys[i]] = of
		}
	}
	if list {
		return all, nil
	}
	return m, nil
}

// Constant returns the value if it has no expressions.
func (v *Value) Constant() (any, bool) {
	if v == nil {
		return nil, true
	}
	return v.constant, !v.dynamic
}

// maxTextBytes limits a text with expressions after evaluation: it is part of a payload.
const maxTextBytes = 1 << 20

func (v *Value) text(env map[string]any) (any, error) {
	var b strings.Builder
	for _, p := range v.parts {
		b.WriteString(p.text)
		if p.of == nil {
			continue
		}
		of, err := p.of.Eval(env)
		if err != nil {
			return nil, err
		}
		text, err := Written(of)
		if err != nil {
			return nil, err
		}
		if b.WriteString(text); b.Len() > maxTextBytes {
			return nil, fmt.Errorf("a text with expressions has more than %d bytes", maxTextBytes)
		}
	}
	return b.String(), nil
}

// Written returns a value for insertion into a text: a text unchanged, null as "", and other values as JSON.
func Written(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case int:
		return strconv.Itoa(v), nil
	}
	b, err := json.Marshal(v)
	return string(b), err
}
