package schema

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func refusedSchema(t *testing.T, cases map[string]string) {
	t.Helper()
	for text, want := range cases {
		if _, err := Compile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 2000 {
			t.Errorf("%.80s: %.2000v, want %q", text, err, want)
		}
	}
}

// TestCircles refuses schemas that refer to themselves for the same value, whose check would never end.
func TestCircles(t *testing.T) {
	var chain strings.Builder
	for i := range maxChain + 1 {
		fmt.Fprintf(&chain, `"n%d":{"$ref":"#/$defs/n%d"},`, i, i+1)
	}
	refusedSchema(t, map[string]string{
		`{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}`:                               "refers to itself without looking into the value",
		`{"$ref":""}`:                                                         "refers to itself",
		`{"if":{"type":"object"},"then":{"not":{"$ref":"#"}}}`:                "refers to itself",
		`{"items":{"dependentSchemas":{"a":{"oneOf":[{"$ref":"#/items"}]}}}}`: "the schema at \"/items",
		`{"$ref":"#/$defs/n0","$defs":{` + chain.String() + fmt.Sprintf(`"n%d":{"type":"null"}}}`, maxChain+1): "leads to more than 100 others for the same value",
	})
	compile(t, `{"properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"items":{"$ref":"#"}}`)
}

// TestReferences refuses references that do not lead to a schema within the schema, and keywords that would redirect
// references.
func TestReferences(t *testing.T) {
	refusedSchema(t, map[string]string{
		`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`: "is outside of the schema",
		`{"$ref":"https://json-schema.org/draft-07/schema"}`:      "is outside of the schema",
		`{"$ref":"other.json#/a"}`:                                "is outside of the schema",
		`{"$ref":"#/type","type":"string"}`:                       "leads to no schema",
		`{"$ref":"#/const","const":{}}`:                           "leads to no schema",
		`{"$ref":"#no"}`:                                          "leads to no schema",
		`{"$defs":{"a":{"$anchor":"x"},"b":{"$anchor":"x"}}}`:     `the schema has the anchor "x" twice`,
		`{"$defs":{"a":{"$id":"https://a.example"}}}`:             `the schema has an $id at "/$defs/a"`,
		`{"$defs":{"a":{"$dynamicAnchor":"x"}}}`:                  "$dynamicAnchor",
		`{"$dynamicRef":"#x","$defs":{"a":{"$anchor":"x"}}}`:      "$dynamicRef",
		`{"$id":7}`: "/$id: must be string",
	})
	for _, text := range []string{`{"$ref":"#x","$defs":{"a b/~c":{"$anchor":"x","type":"string"}}}`, `{"$ref":"#/$defs/a%20b~1~0c","$defs":{"a b/~c":{"type":"string"}}}`,
		`{"$id":"https://a.example/x","$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}}`, `{"$ref":"#/definitions/a","definitions":{"a":{"type":"string"}}}`} {
		s := compile(t, text)
		if s.Check(context.Background(), []byte(`"a"`)) != nil || s.Check(context.Background(), []byte(`1`)) == nil {
			t.Error(text)
		}
	}
	compile(t, `{"const":{"$ref":"#/no","$id":7},"properties":{"$id":{"type":"string"},"$ref":true}}`)
}

// TestMaxParts refuses schemas with many parts, or with long pointers, before the library compiles them.
func TestMaxParts(t *testing.T) {
	refusedSchema(t, map[string]string{
		`{"allOf":[true` + strings.Repeat(",true", MaxParts) + `]}`:                                                    "the schema consists of more than 2000 schemas",
		`{"properties":{"` + strings.Repeat("k", 30_000) + `":{"allOf":[true` + strings.Repeat(",true", 1000) + `]}}}`: "pointers of the parts of the schema have more than 1048576 bytes",
		`{"minLength":99999999999999999999}`:                                                                           "minLength of the schema at its top is over 9007199254740992",
		`{"items":{"maxLength":1e300}}`:                                                                                `maxLength of the schema at "/items" is over`,
	})
	one := `{"allOf":[true` + strings.Repeat(",true", MaxParts-2) + `]}`
	var many []string
	for i := range MaxModuleParts/MaxParts + 1 {
		many = append(many, fmt.Sprintf(`"s%d":{"title":"%d",%s`, i, i, one[1:]))
	}
	err := OfModule(context.Background(), []byte(`{"workflows":[{"name":"a","signal_schemas":{`+strings.Join(many, ",")+`}}]}`))
	if err == nil || !strings.Contains(err.Error(), "consist of more than 20000 schemas") {
		t.Error(err)
	}
	// Equal texts are one schema, whose memory counts once.
	same, set := `{"workflows":[{"name":"a","signal_schemas":{"s":`+one, &Set{}
	for i := range 2 * len(many) {
		same += fmt.Sprintf(`,"s%d":%s`, i, one)
		if err := set.Add([]byte(one)); err != nil {
			t.Error(err)
		}
	}
	if err := OfModule(context.Background(), []byte(same+"}}]}")); err != nil {
		t.Error(err)
	}
	for i := range many {
		err = set.Add(fmt.Appendf(nil, `{"title":"%d",%s`, i, one[1:]))
	}
	if err == nil || !strings.Contains(err.Error(), "consist of more than 20000 schemas") {
		t.Error(err)
	}
}

// TestCompiledBytes compares the cache's estimate of the memory of schemas with the real one.
func TestCompiledBytes(t *testing.T) {
	live := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // less than a gigabyte
	}
	var classes, names []string
	for i := range 19 {
		classes = append(classes, fmt.Sprintf(`"x{1000}%d"`, i))
	}
	for i := range 5000 {
		names = append(names, fmt.Sprintf(`"r%d"`, i))
	}
	for name, text := range map[string]string{
		"title":      `{"title":"` + strings.Repeat("a", MaxBytes-20) + `"}`,
		"parts":      `{"allOf":[{"minimum":1}` + strings.Repeat(`,{"minimum":1}`, MaxParts-2) + `]}`,
		"pointers":   `{"properties":{"` + strings.Repeat("k", 500) + `":{"allOf":[true` + strings.Repeat(",true", 1900) + `]}}}`,
		"patterns":   `{"allOf":[{"pattern":` + strings.Join(classes, `},{"pattern":`) + `}]}`,
		"unicode":    `{"pattern":"` + strings.Repeat(`\\pL`, 200) + `"}`,
		"enum":       `{"enum":[` + strings.Join(names[:MaxEnum], ",") + `]}`,
		"required":   `{"required":[` + strings.Join(names, ",") + `]}`,
		"default":    `{"default":[` + strings.Repeat("{},", 20_000) + `{}]}`,
		"properties": `{"properties":{` + strings.Join(names[:1500], `:{"type":"string","minLength":1},`) + `:true}}`,
	} {
		before := live()
		s := compile(t, text)
		took := live() - before
		t.Logf("%s: %d bytes of text take %d, counted %d", name, len(text), took, s.bytes)
		if took > 2*s.bytes {
			t.Errorf("%s takes %d bytes, counted as %d", name, took, s.bytes)
		}
		runtime.KeepAlive(s)
	}
}

// TestFaultsAreBounded refuses values with many faults at long names, and limits the length of the report.
func TestFaultsAreBounded(t *testing.T) {
	wrong := "[1" + strings.Repeat(",1", 9999) + "]"
	deep := strings.Repeat(`{"c":`, MaxDepth-10) + "[1" + strings.Repeat(",1", 90_000) + "]" + strings.Repeat("}", MaxDepth-10)
	long := `"` + strings.Repeat("b", 1<<19) + `"`
	for name, c := range map[string]struct{ schema, in string }{
		"long names":   {`{"type":["object","null"],"additionalProperties":{"type":["array","null"],"items":{"type":"string"}}}`, `{"` + strings.Repeat("k", 200_000) + `":` + wrong + `}`},
		"deep":         {`{"additionalProperties":{"$ref":"#"},"items":{"type":"string"}}`, deep},
		"many":         {`{"items":{"allOf":[` + strings.Repeat(`{"type":"string"},`, 1000) + `true]}}`, "[1" + strings.Repeat(",1", 90_000) + "]"},
		"text":         {`{"allOf":[` + strings.Repeat(`{"pattern":"^a"},`, 1000) + `true]}`, long},
		"enum":         {`{"items":{"enum":["` + strings.Repeat("a", 50_000) + `"]}}`, "[1" + strings.Repeat(",1", 90_000) + "]"},
		"alternatives": {`{"items":{"anyOf":[{"type":"string"},{"items":{"anyOf":[{"minimum":7},{"type":"null"}]}}]}}`, "[" + wrong + "," + wrong + "," + wrong + "]"},
	} {
		s := compile(t, c.schema)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := s.Check(context.Background(), []byte(c.in))
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Fatal(name, "fits")
		}
		took := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%s: %d MiB, %.300v", name, took, err)
		if took > 400 || len(err.Error()) > MaxFaults*(maxWords+2*maxPointer) {
			t.Errorf("%s: %d MiB, an error of %d bytes", name, took, len(err.Error()))
		}
	}
}

// TestComparisonsCount: comparisons count as work, separately for each value.
func TestComparisonsCount(t *testing.T) {
	var numbers []string
	for i := range MaxEnum {
		numbers = append(numbers, fmt.Sprintf("%de-300", i+1))
	}
	many := "[1e400" + strings.Repeat(",1e400", 99_000) + "]"
	s := compile(t, `{"items":{"enum":[`+strings.Join(numbers, ",")+`]}}`)
	if err := s.Check(context.Background(), []byte(many)); err == nil || s.meter.Left() > maxWork-2*99_000 {
		t.Error(err, s.meter.Left())
	}
	if err := s.Check(context.Background(), []byte(`[10e-301,0.1e-298]`)); err != nil {
		t.Error(err)
	}
	nested := strings.Repeat("[0,", 400) + `"` + strings.Repeat("x", 1<<19) + `"` + strings.Repeat("]", 400)
	for schema, in := range map[string]string{
		`{"uniqueItems":true,"items":{"$ref":"#"}}`:                                              nested,
		`{"items":{"allOf":[` + strings.Repeat(`{"multipleOf":1e-300},`, 100) + `true]}}`:        many,
		`{"items":{"allOf":[` + strings.Repeat(`{"type":"integer"},`, 100) + `true]}}`:           many,
		`{"unevaluatedItems":false,"allOf":[` + strings.Repeat(`{"title":"a"},`, 100) + `true]}`: many,
	} {
		if err := compile(t, schema).Check(context.Background(), []byte(in)); err == nil || !strings.Contains(err.Error(), "more than 1000000 comparisons") {
			t.Errorf("%.80s: %.200v", schema, err)
		}
	}
	for schema, c := range map[string]string{`{"uniqueItems":true}`: `[1,1.0]`, `{"const":{"a":[1,2]}}`: `{"a":[1,3]}`, `{"const":0}`: `false`, `{"enum":["1"]}`: `1`, `{"type":"integer"}`: `1.5e0`} {
		if compile(t, schema).Check(context.Background(), []byte(c)) == nil {
			t.Error(schema, c)
		}
	}
	for schema, c := range map[string]string{`{"uniqueItems":true}`: `[1,"1",[1],{"a":1},true,"true",null]`, `{"const":{"a":[1,2],"b":-0}}`: `{"b":0.0e5,"a":[0.1e1,20e-1]}`, `{"type":"integer"}`: `1.50e1`,
		`{"type":["integer","number"]}`: `1.5`} {
		if err := compile(t, schema).Check(context.Background(), []byte(c)); err != nil {
			t.Error(schema, c, err)
		}
	}
}

// TestFormatRegex checks many values that are patterns: the schema caches none of them.
func TestFormatRegex(t *testing.T) {
	s := compile(t, `{"items":{"format":"regex"}}`)
	kept, programs := len(s.patterns), s.programs
	for i := range 100 {
		if err := s.Check(context.Background(), fmt.Appendf(nil, `["^[a-z]{100}%d$"]`, i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.patterns) != kept || s.programs != programs {
		t.Errorf("%d patterns with %d instructions, before %d with %d", len(s.patterns), s.programs, kept, programs)
	}
	for _, in := range []string{`["("]`, `["` + strings.Repeat("a", MaxPattern+1) + `"]`} {
		if s.Check(context.Background(), []byte(in)) == nil {
			t.Errorf("%.20s fits", in)
		}
	}
}

// TestStop ends checks with their context: while a value is read, and in the library.
func TestStop(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	s := compile(t, `{"items":{"type":"string"}}`)
	if s.plain.FitsAsRead(ctx, strings.NewReader("["+strings.Repeat(`"a",`, 10_000)+`"a"]`)) {
		t.Error("it was read to the end")
	}
	if err := s.Check(ctx, []byte("[1"+strings.Repeat(",1", 10_000)+"]")); err == nil || err.Error() != "the check was stopped" {
		t.Error(err)
	}
}

// TestWordsOfFaults checks the texts of faults.
func TestWordsOfFaults(t *testing.T) {
	for _, c := range [][3]string{
		{`{"maximum":9007199254740992}`, `9007199254740993`, "maximum: got 9007199254740993, want 9007199254740992"},
		{`{"minimum":0.1}`, `0.09999999999999999999999`, "minimum: got 0.09999999999999999999999, want 0.1"},
		{`{"maximum":10}`, `1e400`, "maximum: got 1e+400, want 10"},
		{`{"const":{"a":[1,2]}}`, `1`, `must be {"a":[1,2]}`},
		{`{"enum":[{"a":1},null,[1]]}`, `1`, `must be one of {"a":1}, null, [1]`},
		{`{"contains":{"type":"string"}}`, `[1]`, "has no item that fits to what it must contain"},
		{`{"contains":{},"minContains":3}`, `[1]`, "has 1 items that fit to what it must contain, want at least 3"},
		{`{"contains":{},"maxContains":0,"minContains":0}`, `[1]`, "has 1 items that fit to what it must contain, want at most 0"},
		{`{"propertyNames":{"maxLength":1}}`, `{"bb":1}`, "/bb: its name: maxLength: got 2, want 1"},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `/b: is missing, as "a" is there`},
		{`{"type":["integer","null"]}`, `1.5`, "must be integer, got number"},
		{`{"type":["integer","null"]}`, `"a"`, "must be null or integer, got string"},
		{`{"type":"integer"}`, "  ", "it is not JSON: there is nothing but white space"},
	} {
		if err := compile(t, c[0]).Check(context.Background(), []byte(c[1])); err == nil || err.Error() != c[2] {
			t.Errorf("%s: %v, want %s", c[0], err, c[2])
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
		if err := compile(t, schema).Check(context.Background(), []byte("1")); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", schema, err, want)
		}
	}
	if err := compile(t, `{"enum":["`+strings.Repeat("a", 1000)+`"]}`).Check(context.Background(), []byte("1")); err == nil || len(err.Error()) > 400 {
		t.Error(err)
	}
}

// TestLargeList accepts a list that is too large for the library if its schema is plain, and otherwise says that it
// is too large.
func TestLargeList(t *testing.T) {
	s, many := compile(t, `{"items":{"type":"integer"}}`), "["+strings.Repeat("1,", MaxValues)
	if err := s.Check(context.Background(), []byte(many+"1]")); err != nil {
		t.Error(err)
	}
	if err := s.Check(context.Background(), []byte(many+`"1"]`)); err == nil || err.Error() != "it has more than 100000 values" {
		t.Error(err)
	}
}
