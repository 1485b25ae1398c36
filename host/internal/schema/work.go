package schema

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// overworked is what the check of a value panics with when it has taken maxWork.
var overworked = errors.New("overworked")

func (s *Schema) work(n int) {
	if s.left -= n; s.left < 0 {
		panic(overworked)
	}
}

// pattern is a regular expression whose matches count as work. It is RE2: its time is at most the length of the text times the
// number of its instructions, of which x{1000} has a thousand.
type pattern struct {
	*regexp.Regexp
	s    *Schema
	size int // instructions
}

// MatchString reports whether the text has a match.
func (p *pattern) MatchString(text string) bool {
	p.s.work(1 + len(text)*p.size/workOfMatch)
	return p.Regexp.MatchString(text)
}

func (s *Schema) pattern(text string) (jsonschema.Regexp, error) {
	if p := s.patterns[text]; p != nil { // it was checked before, as part of the schema
		return p, nil
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if s.programs += len(program.Inst); s.programs > MaxProgram {
		return nil, fmt.Errorf("the patterns have more than %d instructions together", MaxProgram)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	s.left = maxWork // schemas are themselves checked with patterns
	p := &pattern{re, s, len(program.Inst)}
	s.patterns[text] = p
	return p, nil
}

// count has each part of a schema count as work when it is applied to a value, by way of its format, which the library looks at
// first of all that may branch. The library itself has no bound, and n parts can branch to two to the n.
func (s *Schema) count(part *jsonschema.Schema, seen map[*jsonschema.Schema]bool) {
	if part == nil || seen[part] {
		return
	}
	seen[part] = true
	below := parts(part)
	work, name, validate := 1+len(below)/8+len(part.Required)+len(part.PatternProperties), "", func(any) error { return nil }
	for _, names := range part.DependentRequired {
		work += len(names)
	}
	if f := part.Format; f != nil {
		name, validate = f.Name, f.Validate
	}
	part.Format = &jsonschema.Format{Name: name, Validate: func(v any) error {
		s.work(work)
		return validate(v)
	}}
	for _, p := range below {
		s.count(p, seen)
	}
}

// parts returns the schemas that a schema applies to a value, or to what is in it; nil among them are none.
func parts(s *jsonschema.Schema) []*jsonschema.Schema {
	p := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties,
		s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema}
	if s.DynamicRef != nil {
		p = append(p, s.DynamicRef.Ref)
	}
	p = append(append(append(append(p, s.AllOf...), s.AnyOf...), s.OneOf...), s.PrefixItems...)
	for _, x := range s.Properties {
		p = append(p, x)
	}
	for _, x := range s.PatternProperties {
		p = append(p, x)
	}
	for _, x := range s.DependentSchemas {
		p = append(p, x)
	}
	for _, x := range s.Dependencies {
		if x, ok := x.(*jsonschema.Schema); ok {
			p = append(p, x)
		}
	}
	for _, x := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch x := x.(type) {
		case *jsonschema.Schema:
			p = append(p, x)
		case []*jsonschema.Schema:
			p = append(p, x...)
		}
	}
	return p
}
