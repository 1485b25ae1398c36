package schema

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestOfModule(t *testing.T) {
	m, err := OfModule([]byte(`{"workflows":[{"name":"a","input_schema":{"type":"string"},"signal_schemas":{"s":{"type":"null"}}},{"name":"b","input_schema":null}]}`))
	if err != nil || m.Workflows["a"].Input == nil || m.Workflows["a"].Output != nil || m.Workflows["a"].Signals["s"].Check([]byte("null")) != nil || m.Workflows["b"] != nil {
		t.Fatal(m, err)
	}
	if m, err := OfModule(nil); err != nil || len(m.Workflows) != 0 {
		t.Error(m, err)
	}
	long := `{"title":"` + strings.Repeat("a", MaxBytes-20) + `"}`
	var many []string
	for i := range MaxModuleBytes/MaxBytes + 1 {
		many = append(many, fmt.Sprintf(`"s%d":%s`, i, long))
	}
	for description, want := range map[string]string{
		`[`: "workflow_describe is not as it should be",
		`{"workflows":[{"name":"a","output_schema":17}]}`:                                 `result of workflow "a": the schema is none`,
		`{"workflows":[{"name":"a","signals":["x"],"signal_schemas":{"s":{}}}]}`:          `the signal "s", which is not among its signals ["x"]`,
		`{"workflows":[{"name":"a","signal_schemas":{"s":17}}]}`:                          `signal "s" of workflow "a": the schema is none`,
		`{"workflows":[{"name":"a","signal_schemas":{` + strings.Join(many, ",") + `}}]}`: "the schemas of the module have more than 1048576 bytes",
	} {
		if _, err := OfModule([]byte(description)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %s", description, err, want)
		}
	}
}

func TestCache(t *testing.T) {
	var c Cache
	loads := 0
	of := func(n int, size int) (*Workflow, error) {
		return c.Of([32]byte{byte(n), byte(n >> 8)}, "w", func() ([]byte, error) {
			loads++
			return []byte(`{"workflows":[{"name":"w","input_schema":{"title":"` + strings.Repeat("a", size) + `"}}]}`), nil
		})
	}
	for range 3 {
		if w, err := of(1, 10); err != nil || w.Input == nil || loads != 1 {
			t.Fatal(w, err, loads)
		}
	}
	for i := range 20 { // 50,000 bytes take 3.2 MB each
		if _, err := of(10+i, 50_000); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(c.modules); n > 11 || c.list.Bytes() > CacheBytes {
		t.Errorf("%d modules, %d bytes", n, c.list.Bytes())
	}
	if _, err := of(1, 10); err != nil || loads != 22 {
		t.Error(loads, "loads, the oldest one was not given up", err)
	}
	fails := errors.New("fails")
	if _, err := c.Of([32]byte{9, 9}, "w", func() ([]byte, error) { return nil, fails }); !errors.Is(err, fails) {
		t.Error(err)
	}
	if w, err := c.Of([32]byte{9, 9}, "w", func() ([]byte, error) { return []byte(`{"workflows":[{"name":"w","input_schema":17}]}`), nil }); w != nil || err != nil {
		t.Error(w, err) // of a release that did not look at it
	}
}

// TestPlain compares what is said at once with what the library says.
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
		`{"$dynamicRef":"#n","$dynamicAnchor":"n","properties":{"b":{"$dynamicRef":"#n"}}}`: false, `{"unevaluatedProperties":false}`: false,
	} {
		fast, slow := compile(t, schema), compile(t, schema)
		slow.plain = nil
		if (fast.plain != nil) != isPlain {
			t.Errorf("%s is plain: %v", schema, fast.plain != nil)
		}
		for _, v := range values {
			a, b := fast.Check([]byte(v)), slow.Check([]byte(v))
			if c := fast.streamed(strings.NewReader(v)); c && a != nil || c && fast.plain == nil {
				t.Errorf("%s for %s: %v, as it is read %v", schema, v, a, c)
			}
			if (a == nil) != (b == nil) {
				t.Errorf("%s for %s: %v, by the library %v", schema, v, a, b)
			}
		}
	}
}

func TestWords(t *testing.T) {
	for schema, want := range map[string]string{
		`false`: "must not be there", `{"not":{}}`: "must not be like this", `{"oneOf":[{},true]}`: "fits more than one of what it may be: 0 and 1, counted from 0",
		`{"oneOf":[{"type":"string"},{"type":"null"},{"type":"array"},{"type":"object"}]}`: "fits none of what it may be: must be string, got number; or must be null, " +
			"got number; or must be array, got number; or …",
		`{"allOf":[{"minimum":9},{"multipleOf":2}]}`: "minimum: got 1, want 9; multipleOf: got 1, want 2",
	} {
		if err := compile(t, schema).Check([]byte("1")); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", schema, err, want)
		}
	}
	if err := compile(t, `{"enum":["`+strings.Repeat("a", 1000)+`"]}`).Check([]byte("1")); err == nil || len(err.Error()) > 400 {
		t.Error(err)
	}
}

// TestLarge takes values that are too large for the library, of schemas that are plain, and what is wrong with them is found.
func TestLarge(t *testing.T) {
	many := strings.Repeat("1,", MaxValues)
	list := compile(t, `{"type":["object","null"],"properties":{"n":{"type":["array","null"],"items":{"type":"integer","minimum":0}},
"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]},"cents":{"type":"integer","minimum":0}},"required":["cents"]}`)
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
		if err := list.Check([]byte(in)); (err == nil) != want {
			t.Errorf("%.30s … %s: %v", in, in[max(0, len(in)-30):], err)
		}
	}
	for schema, want := range map[string]bool{`true`: true, `{"items":{"enum":["a"]}}`: false, `{"items":{"minimum":0,"maximum":1}}`: true,
		`{"maxItems":5}`: false, `{"multipleOf":2}`: false, `{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`: false,
		`{"enum":["a"]}`: false, `{"anyOf":[{"type":"array"},{"items":{"type":"string"}}]}`: false} {
		if err := compile(t, schema).Check([]byte(`[` + many + `1]`)); (err == nil) != want {
			t.Errorf("%s: %v", schema, err)
		}
	}
	if err := compile(t, `true`).Check([]byte(strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1))); err == nil {
		t.Error("it is too deep, and fits")
	}
}
