package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The check of a value panics with overworked when its work is used up, and with stopped when its context has ended.
var overworked, stopped = errors.New("overworked"), errors.New("stopped")

func (s *Schema) work(n int) {
	if s.meter.Spend(n) {
		return
	}
	if s.meter.Stopped() {
		panic(stopped)
	}
	panic(overworked)
}

// pattern is a regular expression whose matches count as work. It is RE2: a match takes at most the length of the text
// times the number of instructions; x{1000} has a thousand.
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

// pattern compiles a regular expression for the library. It is called only while a schema is compiled.
func (s *Schema) pattern(text string) (jsonschema.Regexp, error) {
	if p := s.patterns[text]; p != nil { // the text was compiled before, as part of the schema
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
	s.programs += sizeOf(program)
	if s.programs > MaxProgram {
		return nil, fmt.Errorf("the patterns have more than %d instructions together", MaxProgram)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	p := &pattern{re, s, len(program.Inst)}
	s.patterns[text] = p
	return p, nil
}

// sizeOf returns the size of a program in instructions. A character class such as \pL takes as much memory as many
// instructions; its repetitions share it.
func sizeOf(program *syntax.Prog) int {
	size, classes := len(program.Inst), map[*rune]bool{}
	for i := range program.Inst {
		if class := program.Inst[i].Rune; len(class) > 0 && !classes[&class[0]] {
			classes[&class[0]] = true
			size += len(class) / 16
		}
	}
	return size
}

// isPattern checks the format "regex". The library's own check compiles each value, and keeps it.
func isPattern(v any) error {
	text, ok := v.(string)
	if !ok {
		return nil
	}
	if len(text) > MaxPattern {
		return fmt.Errorf("it has %d bytes, the limit is %d", len(text), MaxPattern)
	}
	_, err := syntax.Parse(text, syntax.Perl)
	return err
}

// part counts the work of applying a part of a compiled schema to a value. It also makes the checks whose time the library does
// not bound: equality, and whether numbers are integers. It replaces the part's format, which the library checks after the type
// and before it applies other parts. The library has no limit of its own, and n parts can branch to two to the n.
type part struct {
	s       *Schema
	once    int // work for any value: one, and one for each part that it applies to the same value
	each    int // work for each member or item
	numbers int // work of its bounds for each number
	text    bool
	format  func(any) error

	integer bool
	unique  bool
	equal   []*values // of enum and const
}

// Bytes that count as one unit of work: of a text that is copied, and of a text whose characters are counted or that is
// compared.
const workOfCopy, workOfText = 1024, 64

// apply is called for each value that the part is applied to.
func (p *part) apply(v any) error {
	p.s.work(p.once)
	switch v := v.(type) {
	case string:
		p.s.work(len(v) / workOfCopy)
		if p.text {
			p.s.work(len(v) / workOfText)
		}
	case json.Number:
		if p.numbers > 0 { // a fraction has as many digits as the exponent says
			digits, exponent := decimal(string(v))
			p.s.work(p.numbers * (1 + (len(digits)+max(exponent, -exponent))/16))
		}
		if p.integer && !isInteger(string(v)) {
			return &mismatch{"must be integer, got number", nil}
		}
	case []any:
		p.s.work(p.each * len(v))
	case map[string]any:
		p.s.work(p.each * len(v))
	}
	for _, e := range p.equal {
		ok, bytes := e.has(v)
		if p.s.work(bytes / workOfText); !ok {
			return &mismatch{"", e.want}
		}
	}
	if list, ok := v.([]any); ok && p.unique {
		if i, j, found := twins(list, func(n int) { p.s.work(1 + n/workOfText) }); found {
			return &mismatch{fmt.Sprintf("items %d and %d are equal", i, j), nil}
		}
	}
	if p.format != nil {
		return p.format(v)
	}
	return nil
}

// count replaces the format of each part of a schema with a part.
func (s *Schema) count(of *jsonschema.Schema, seen map[*jsonschema.Schema]bool) {
	if of == nil || seen[of] {
		return
	}
	seen[of] = true
	beside := len(slices.DeleteFunc(inPlace(of), func(x *jsonschema.Schema) bool { return x == nil }))
	p := &part{s: s, once: 1 + beside + len(of.Required) + len(of.PatternProperties), each: 1 + len(of.PatternProperties)}
	for _, names := range of.DependentRequired {
		p.once += len(names)
	}
	for _, x := range of.Dependencies {
		names, _ := x.([]string)
		p.once += len(names)
	}
	for _, x := range []*jsonschema.Schema{of.PropertyNames, of.Contains} {
		if x != nil {
			p.each++
		}
	}
	if s.unevaluated { // each subschema applied in place keeps a list of what it has not evaluated
		p.each += 1 + beside
	}
	for _, r := range []*big.Rat{of.Minimum, of.Maximum, of.ExclusiveMinimum, of.ExclusiveMaximum, of.MultipleOf} {
		p.numbers += ratWork(r)
	}
	p.moveChecks(of)
	for _, x := range parts(of) {
		s.count(x, seen)
	}
}

// moveChecks moves the checks that the library would make without a bound from the schema to the part.
func (p *part) moveChecks(of *jsonschema.Schema) {
	name := ""
	if f := of.Format; f != nil {
		name, p.format, p.text = f.Name, f.Validate, true
		if name == "regex" {
			p.format = isPattern
		}
	}
	p.text = p.text || of.MinLength != nil || of.MaxLength != nil
	if of.Enum != nil {
		p.equal, of.Enum = append(p.equal, valuesOf(of.Enum.Values)), nil
	}
	if of.Const != nil {
		p.equal, of.Const = append(p.equal, valuesOf([]any{*of.Const})), nil
	}
	p.unique, of.UniqueItems = of.UniqueItems, false
	if of.Types != nil {
		known := of.Types.ToStrings()
		p.integer = slices.Contains(known, "integer") && !slices.Contains(known, "number")
		types := new(jsonschema.Types)
		for _, t := range known {
			if t != "integer" || p.integer { // integer beside number means that apply checks for integers: see words
				types.Add(t)
			}
			if t == "integer" {
				types.Add("number")
			}
		}
		of.Types = types
	}
	of.Format = &jsonschema.Format{Name: name, Validate: p.apply}
}
