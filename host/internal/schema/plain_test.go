package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compiled(t *testing.T, text string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("https://schema.invalid", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("https://schema.invalid")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWork ends when the work for one value is used up, or with its context. Branching references are resolved once
// per schema, not once per value.
func TestWork(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	m := NewMeter(ctx, 10_000)
	if !m.Spend(10_000) || m.Left() != 0 || m.Spend(1) || m.Stopped() {
		t.Error("the work does not end")
	}
	m = NewMeter(ctx, 10_000)
	if stop(); m.Spend(worksPerLook+1) || !m.Stopped() {
		t.Error("the check goes on after its context has ended")
	}
	var defs strings.Builder
	for i := range 40 { // walking through all branches would take 2^40 steps
		fmt.Fprintf(&defs, `"n%d":{"anyOf":[{"$ref":"#/$defs/n%d"},{"$ref":"#/$defs/n%d"}]},`, i, i+1, i+1)
	}
	p := Of(compiled(t, `{"$ref":"#/$defs/n0","$defs":{`+defs.String()+`"n40":{"type":"array"}}}`))
	if p == nil || !p.takes(true) || p.takes(false) || p.FitsAsRead(t.Context(), strings.NewReader("[x")) {
		t.Error("kinds of branches")
	}
	required := Of(compiled(t, `{"items":{"required":["a","b","c","d","e"]}}`))
	s := &stream{d: json.NewDecoder(strings.NewReader(`[{"a":1,"b":1,"c":1,"d":1,"e":1}]`)), meter: NewMeter(t.Context(), 8)}
	if s.fits(both{required}) {
		t.Error("it takes more work than there is")
	}
}

// TestPlain compares verdicts with the library's.
func TestPlain(t *testing.T) {
	values := []string{`null`, `true`, `"a"`, `"abcd"`, `""`, `0`, `-4`, `7`, `1.5`, `1e2`, `99999999999999999999`, `[]`, `["a"]`, `[1,2,3]`, `{}`, `{"a":1}`,
		`{"a":"x","b":null}`, `{"b":{"b":{"b":{}}}}`, `{"c":[{"a":1}]}`}
	for schema, isPlain := range map[string]bool{
		`true`: true, `false`: false, `{}`: true, `{"type":"integer"}`: true, `{"type":["number","null"],"minimum":-3,"maximum":7}`: true,
		`{"minimum":1.5}`: false, `{"maximum":1e30}`: false, `{"enum":["a","x"]}`: true, `{"enum":["a",1]}`: false, `{"minLength":1,"maxLength":3}`: true,
		`{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":2}`: true, `{"properties":{"a":{"type":"integer"}},"required":["a"]}`: true,
		`{"additionalProperties":false,"properties":{"a":true}}`: true, `{"additionalProperties":{"type":"integer"}}`: true,
		`{"properties":{"b":{"$ref":"#"}},"type":["object","null"]}`: true, `{"properties":{"b":{"$ref":"#"},"c":{"const":1}}}`: false,
		`{"anyOf":[{"type":"string"},{"type":"null"}]}`: true, `{"oneOf":[{"type":"string"},{"minLength":9}]}`: false, `{"not":{"type":"string"}}`: false,
		`{"allOf":[{"type":"string"}]}`: false, `{"if":{"type":"string"},"then":{"minLength":3},"else":false}`: false,
		`{"dependentRequired":{"a":["z"]},"dependentSchemas":{"a":{"required":["y"]}}}`: false, `{"patternProperties":{"^a":{"type":"integer"}}}`: false,
		`{"contains":{"type":"integer"},"prefixItems":[{"type":"string"}],"unevaluatedItems":false}`: false, `{"propertyNames":{"maxLength":0}}`: false,
		`{"unevaluatedProperties":false}`: false,
	} {
		slow := compiled(t, schema)
		fast := Of(slow)
		if (fast != nil) != isPlain {
			t.Errorf("%s is plain: %v", schema, fast != nil)
		}
		for _, v := range values {
			d := json.NewDecoder(strings.NewReader(v))
			d.UseNumber()
			var value any
			if err := d.Decode(&value); err != nil {
				t.Fatal(err)
			}
			err := slow.Validate(value)
			if c := fast.FitsAsRead(t.Context(), strings.NewReader(v)); c && err != nil || c && fast == nil {
				t.Errorf("%s for %s: %v, as it is read %v", schema, v, err, c)
			}
			if fits := fast.Fits(value); fits && err != nil || !fits && err == nil && fast != nil && v != "1.5" && v != "1e2" && v != "99999999999999999999" {
				t.Errorf("%s for %s: %v, by the library %v", schema, v, fits, err)
			}
		}
	}
}

// TestLarge checks values that are too large for the library against plain schemas, and finds their faults.
func TestLarge(t *testing.T) {
	many := strings.Repeat("1,", 100_000)
	list := Of(compiled(t, `{"type":["object","null"],"properties":{"n":{"type":["array","null"],"items":{"type":"integer","minimum":0}},
"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]},"cents":{"type":"integer","minimum":0}},"required":["cents"]}`))
	for in, want := range map[string]bool{
		`{"cents":1,"n":[` + many + `1]}`:                                       true,
		`{"next":{"cents":1,"n":[` + many + `1],"next":null},"cents":2,"x":{}}`: true,
		`{"cents":-1,"n":[` + many + `1]}`:                                      false,
		`{"n":[` + many + `1]}`:                                                 false,
		`{"cents":1,"n":[` + many + `-1]}`:                                      false,
		`{"cents":1,"n":[` + many + `"1"]}`:                                     false,
		`{"cents":1,"next":{"n":[` + many + `1]}}`:                              false,
		`{"cents":1,"n":[` + many + `1]} 1`:                                     false,
		`{"cents":1,"n":[` + many + `1]`:                                        false,
		`[` + many + `1]`:                                                       false,
	} {
		if fits := list.FitsAsRead(t.Context(), strings.NewReader(in)); fits != want {
			t.Errorf("%.30s … %s: %v", in, in[max(0, len(in)-30):], fits)
		}
	}
	for schema, want := range map[string]bool{`true`: true, `{"items":{"enum":["a"]}}`: false, `{"items":{"minimum":0,"maximum":1}}`: true,
		`{"maxItems":5}`: false, `{"multipleOf":2}`: false,
		`{"enum":["a"]}`: false, `{"anyOf":[{"type":"array"},{"items":{"type":"string"}}]}`: false} {
		if fits := Of(compiled(t, schema)).FitsAsRead(t.Context(), strings.NewReader(`[`+many+`1]`)); fits != want {
			t.Errorf("%s: %v", schema, fits)
		}
	}
	if Of(compiled(t, `true`)).FitsAsRead(t.Context(), strings.NewReader(strings.Repeat("[", MaxDepth+1)+strings.Repeat("]", MaxDepth+1))) {
		t.Error("it is too deep, and fits")
	}
}
