package schema

import (
	"encoding/json"
	"math/big"
	"strconv"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Most schemas have types, properties and a few bounds, and most values fit to them. The library takes four times as long for
// those as decoding them does: it keeps account of where it is, and compares numbers as fractions. A plain says at once that a
// value fits. It never says that one does not: whatever it does not know is left to the library.

// Plain is a part of a schema of which all is known here. A nil one knows nothing.
type Plain struct {
	types      map[string]bool // nil: any
	enum       map[string]bool // of texts; nil: any
	ref        *Plain
	anyOf      []*Plain
	properties map[string]*Plain
	required   []string
	closed     bool   // no other properties
	additional *Plain // for the other ones, if any is said

	items                *Plain
	minItems, maxItems   *int
	minLength, maxLength *int
	minimum, maximum     *int64 // inclusive, of integers; a nil one is not there
	bounded              bool   // there is a bound, so that numbers that are no integers are not known

	settled        bool // the next two are known
	lists, objects bool // a list, an object may fit, as far as types say
}

// maxPlainWork is how many values are looked at before the library is asked: branches of branches multiply.
const maxPlainWork = 100_000

// Of returns what is known of a schema, nil if it says anything else. None of its parts refers to itself without looking into the
// value.
func Of(s *jsonschema.Schema) *Plain {
	p := plainOf(s, map[*jsonschema.Schema]*Plain{})
	p.settle()
	return p
}

// Fits reports that a value, whose numbers are of type json.Number, fits for sure.
func (p *Plain) Fits(v any) bool {
	work := maxPlainWork
	return p.fits(v, &work)
}

// plainOf returns what is known of a schema, nil if it says anything else.
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
		p.enum = map[string]bool{} // who contains it already does not fit
		p.types = map[string]bool{}
		return nil
	}
	return p
}

// settle finds out for all parts whether lists and objects may fit. References lead nowhere in a circle without looking into the
// value.
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

// simple reports whether a schema has none of the keywords that are not known here.
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

// bound returns a bound of integers, false if it is none.
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

// fits reports that a value fits for sure.
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

// within reports whether a number is between two others, which may not be there.
func within(least, most *int, n func() int) bool {
	if least == nil && most == nil {
		return true
	}
	x := n()
	return (least == nil || x >= *least) && (most == nil || x <= *most)
}

func (p *Plain) number(text string) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil { // no integer, or written as none
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
