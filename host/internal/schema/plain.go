package schema

import (
	"encoding/json"
	"math/big"
	"strconv"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Most schemas have types, properties and a few bounds, and most values fit. For those, the library takes four times as
// long as decoding the value: it tracks its location, and compares numbers as fractions. A Plain quickly recognizes
// values that fit. It never reports that a value does not fit: values that it does not recognize go to the library.

// Plain is a part of a schema that has only keywords known here. A nil Plain recognizes no value.
type Plain struct {
	types      map[string]bool // nil: any
	enum       map[string]bool // of strings; nil: any
	ref        *Plain
	anyOf      []*Plain
	properties map[string]*Plain
	required   []string
	closed     bool   // no other properties
	additional *Plain // for other properties; nil: any

	items                *Plain
	minItems, maxItems   *int
	minLength, maxLength *int
	minimum, maximum     *int64 // inclusive, of integers; nil: no bound
	bounded              bool   // there is a bound; non-integers are then left to the library

	settled        bool // lists and objects are set
	lists, objects bool // whether a list, or an object, may fit by its type
}

// maxPlainWork bounds the values that Fits looks at before the library is asked: nested branches multiply.
const maxPlainWork = 100_000

// Of returns the Plain of a schema, and nil if the schema has an unknown keyword. No part of s may refer to itself
// without looking into the value.
func Of(s *jsonschema.Schema) *Plain {
	p := plainOf(s, map[*jsonschema.Schema]*Plain{})
	p.settle()
	return p
}

// Fits reports whether a value certainly fits; false means that it may or may not. Numbers must have type json.Number.
func (p *Plain) Fits(v any) bool {
	work := maxPlainWork
	return p.fits(v, &work)
}

// plainOf returns the Plain of a schema, and nil if the schema has an unknown keyword.
func plainOf(s *jsonschema.Schema, known map[*jsonschema.Schema]*Plain) *Plain {
	if p, ok := known[s]; ok {
		return p
	}
	known[s] = nil
	if s.Bool != nil {
		if *s.Bool {
			known[s] = &Plain{}
		}
		return known[s]
	}
	if !simple(s) {
		return nil
	}
	p := &Plain{required: s.Required, minItems: s.MinItems, maxItems: s.MaxItems, minLength: s.MinLength, maxLength: s.MaxLength}
	known[s] = p // it may contain itself
	if !p.scalars(s) || !p.parts(s, known) {
		known[s] = nil
		p.enum = map[string]bool{} // a Plain that already contains p then recognizes no value
		p.types = map[string]bool{}
		return nil
	}
	return p
}

// settle sets lists and objects in all parts. It relies on references having no cycle that never looks into the value.
func (p *Plain) settle() {
	if p == nil || p.settled {
		return
	}
	p.settled, p.lists, p.objects = true, p.is("array"), p.is("object")
	if p.ref != nil {
		p.ref.settle()
		p.lists, p.objects = p.lists && p.ref.lists, p.objects && p.ref.objects
	}
	lists, objects := p.anyOf == nil, p.anyOf == nil
	for _, x := range p.anyOf {
		if x.settle(); x != nil {
			lists, objects = lists || x.lists, objects || x.objects
		}
	}
	p.lists, p.objects = p.lists && lists, p.objects && objects
	for _, x := range p.properties {
		x.settle()
	}
	p.additional.settle()
	p.items.settle()
}

// simple reports whether a schema has only keywords that are known here.
func simple(s *jsonschema.Schema) bool {
	return s.RecursiveRef == nil && s.DynamicRef == nil && s.Const == nil && s.Not == nil && s.AllOf == nil && s.OneOf == nil &&
		s.If == nil && s.Format == nil && s.MaxProperties == nil && s.MinProperties == nil && s.PropertyNames == nil &&
		s.PatternProperties == nil && s.Dependencies == nil && s.DependentRequired == nil && s.DependentSchemas == nil &&
		s.UnevaluatedProperties == nil && !s.UniqueItems && s.Contains == nil && s.Items == nil && s.AdditionalItems == nil &&
		s.PrefixItems == nil && s.UnevaluatedItems == nil && s.Pattern == nil && s.ExclusiveMaximum == nil &&
		s.ExclusiveMinimum == nil && s.MultipleOf == nil && s.Extensions == nil
}

func (p *Plain) scalars(s *jsonschema.Schema) bool {
	if s.Types != nil && !s.Types.IsEmpty() {
		p.types = map[string]bool{}
		for _, t := range s.Types.ToStrings() {
			p.types[t] = true
		}
	}
	if s.Enum != nil {
		p.enum = map[string]bool{}
		for _, v := range s.Enum.Values {
			text, ok := v.(string)
			if !ok {
				return false
			}
			p.enum[text] = true
		}
	}
	var ok bool
	p.minimum, ok = bound(s.Minimum)
	if !ok {
		return false
	}
	p.maximum, ok = bound(s.Maximum)
	p.bounded = p.minimum != nil || p.maximum != nil
	return ok
}

// bound returns a bound as an integer, and false if it is not an int64. The bound of a nil r is nil.
func bound(r *big.Rat) (*int64, bool) {
	if r == nil {
		return nil, true
	}
	if !r.IsInt() || !r.Num().IsInt64() {
		return nil, false
	}
	n := r.Num().Int64()
	return &n, true
}

func (p *Plain) parts(s *jsonschema.Schema, known map[*jsonschema.Schema]*Plain) bool {
	all := true
	of := func(x *jsonschema.Schema) *Plain {
		if x == nil {
			return nil
		}
		below := plainOf(x, known)
		all = all && below != nil
		return below
	}
	p.ref, p.items = of(s.Ref), of(s.Items2020)
	for _, x := range s.AnyOf {
		p.anyOf = append(p.anyOf, of(x))
	}
	if len(s.Properties) > 0 {
		p.properties = make(map[string]*Plain, len(s.Properties))
		for name, x := range s.Properties {
			p.properties[name] = of(x)
		}
	}
	switch x := s.AdditionalProperties.(type) {
	case bool:
		p.closed = !x
	case *jsonschema.Schema:
		p.additional = of(x)
	}
	return all
}

// fits reports whether a value certainly fits.
func (p *Plain) fits(v any, work *int) bool {
	*work--
	if p == nil || *work < 0 || p.ref != nil && !p.ref.fits(v, work) {
		return false
	}
	if p.anyOf != nil {
		one := false
		for _, x := range p.anyOf {
			one = x.fits(v, work)
			if one {
				break
			}
		}
		if !one {
			return false
		}
	}
	if text, ok := v.(string); p.enum != nil && !(ok && p.enum[text]) {
		return false
	}
	switch v := v.(type) {
	case nil:
		return p.is("null")
	case bool:
		return p.is("boolean")
	case string:
		return p.is("string") && within(p.minLength, p.maxLength, func() int { return utf8.RuneCountInString(v) })
	case json.Number:
		return p.number(string(v))
	case []any:
		return p.array(v, work)
	case map[string]any:
		return p.object(v, work)
	}
	return false
}

func (p *Plain) is(t string) bool { return p.types == nil || p.types[t] }

// within reports whether the result of n lies between two bounds. A nil bound does not limit it.
func within(least, most *int, n func() int) bool {
	if least == nil && most == nil {
		return true
	}
	x := n()
	return (least == nil || x >= *least) && (most == nil || x <= *most)
}

func (p *Plain) number(text string) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil { // not an integer, or not written as one
		return !p.bounded && p.is("number")
	}
	return (p.is("integer") || p.is("number")) && (p.minimum == nil || n >= *p.minimum) && (p.maximum == nil || n <= *p.maximum)
}

func (p *Plain) array(v []any, work *int) bool {
	if !p.is("array") || !within(p.minItems, p.maxItems, func() int { return len(v) }) {
		return false
	}
	for i := 0; p.items != nil && i < len(v); i++ {
		if !p.items.fits(v[i], work) {
			return false
		}
	}
	return true
}

func (p *Plain) object(v map[string]any, work *int) bool {
	if !p.is("object") {
		return false
	}
	for _, name := range p.required {
		if _, ok := v[name]; !ok {
			return false
		}
	}
	for name, x := range v {
		switch of, ok := p.properties[name]; {
		case ok && !of.fits(x, work), !ok && p.closed, !ok && p.additional != nil && !p.additional.fits(x, work):
			return false
		}
	}
	return true
}
