package schema

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxChain bounds the parts that lead to one another for the same value, as references do. The library looks at all of
// them each time.
const maxChain = 100

// inPlace returns the schemas that a schema applies to the same value. Some elements may be nil.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	p := []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else}
	p = append(append(append(p, s.AllOf...), s.AnyOf...), s.OneOf...)
	for _, x := range s.DependentSchemas {
		p = append(p, x)
	}
	for _, x := range s.Dependencies {
		if x, ok := x.(*jsonschema.Schema); ok {
			p = append(p, x)
		}
	}
	return p
}

// parts returns the schemas that a schema applies to a value or to its contents. Some elements may be nil.
func parts(s *jsonschema.Schema) []*jsonschema.Schema {
	p := append(inPlace(s), s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems)
	p = append(p, s.PrefixItems...)
	for _, x := range s.Properties {
		p = append(p, x)
	}
	for _, x := range s.PatternProperties {
		p = append(p, x)
	}
	if x, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		p = append(p, x)
	}
	return p
}

// chains checks that the parts of a schema have no cycles that never look into the value, and no chains that are too long.
type chains struct {
	lengths     map[*jsonschema.Schema]int // 0 while it is computed
	seen        map[*jsonschema.Schema]bool
	unevaluated bool // a part has unevaluatedItems or unevaluatedProperties
}

func (c *chains) walk(s *jsonschema.Schema) error {
	if s == nil || c.seen[s] {
		return nil
	}
	c.seen[s] = true
	c.unevaluated = c.unevaluated || s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil
	if _, err := c.length(s); err != nil {
		return err
	}
	for _, x := range parts(s) {
		if err := c.walk(x); err != nil {
			return err
		}
	}
	return nil
}

func (c *chains) length(s *jsonschema.Schema) (int, error) {
	if s == nil {
		return 0, nil
	}
	at := shown(strings.TrimPrefix(strings.TrimPrefix(s.Location, location), "#"))
	if n, known := c.lengths[s]; known {
		if n == 0 {
			return 0, fmt.Errorf("the schema at %s refers to itself without looking into the value", at)
		}
		return n, nil
	}
	c.lengths[s] = 0
	longest := 0
	for _, x := range inPlace(s) {
		n, err := c.length(x)
		if err != nil {
			return 0, err
		}
		longest = max(longest, n)
	}
	if longest >= maxChain {
		return 0, fmt.Errorf("the schema at %s leads to more than %d others for the same value, one after the other", at, maxChain)
	}
	c.lengths[s] = longest + 1
	return longest + 1, nil
}

// ratWork returns the work of comparing a number with a bound, and 0 for a nil bound.
func ratWork(r *big.Rat) int {
	if r == nil {
		return 0
	}
	return 1 + (r.Num().BitLen()+r.Denom().BitLen())/64
}
