package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func compile(t testing.TB, text string) *Schema {
	t.Helper()
	s, err := Compile([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const order = `{"type":"object","properties":{"customer":{"type":"string","minLength":1},"lines":{"type":"array","minItems":1,"items":
{"type":"object","properties":{"sku":{"type":"string","pattern":"^[A-Z]{3}$"},"n":{"type":"integer","minimum":1}},"required":["sku","n"]}},
"at":{"type":"string","format":"date-time"},"a/b":{"enum":["x","y"]},"kind":{"anyOf":[{"const":1},{"type":"string"}]}},
"required":["customer","lines"],"additionalProperties":false}`

func TestCheck(t *testing.T) {
	s := compile(t, order)
	for in, want := range map[string]string{
		`{"customer":"c","lines":[{"sku":"ABC","n":1}],"at":"2026-01-01T00:00:00Z","a/b":"x","kind":1}`: "",
		` {"customer":"c","lines":[{"sku":"ABC","n":1}]} `:                                              "",
		``:                           "there is none, and one is required",
		`{}`:                         "/customer: is missing; /lines: is missing",
		`null`:                       "must be object, got null",
		`{"customer":1}`:             "/customer: must be string, got number; /lines: is missing",
		`{"customer":"","lines":[]}`: "/customer: minLength: got 0, want 1; /lines: minItems: got 0, want 1",
		`{"customer":"c","lines":[{"sku":"abc","n":0},{"n":1.5},7]}`: "/lines/0/n: minimum: got 0, want 1; " +
			`/lines/0/sku: "abc" does not match the pattern "^[A-Z]{3}$"; ` + "/lines/1/n: must be integer, got number; /lines/1/sku: is missing; " +
			"/lines/2: must be object, got number",
		`{"customer":"c","lines":[{"sku":"ABC","n":1}],"at":"yesterday","a/b":"z","no~pe":1,"kind":2}`: `/at: "yesterday" is not valid date-time: ` +
			"less than 20 characters long; /a~1b: must be one of \"x\", \"y\"; " +
			"/kind: fits none of what it may be: must be 1; or must be string, got number; /no~0pe: is not known here",
		`{"customer":"c"`: "it is not JSON: unexpected EOF",
		`{"customer":"c","lines":[{"sku":"ABC","n":1}]} 1`: "something follows the JSON value",
	} {
		got := ""
		if err := s.Check(context.Background(), []byte(in)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", in, got, want)
		}
	}
	for text, fits := range map[string]bool{`true`: true, `false`: false, `{"type":"object"}`: true, `{"type":["null","integer"]}`: true,
		`{"type":"integer"}`: false, `{"type":"integer","default":7}`: true} {
		if err := compile(t, text).Check(context.Background(), nil); (err == nil) != fits {
			t.Errorf("no value for %s: %v", text, err)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"objct"}`:                                      `the schema is none: /type: fits none of what it may be: must be one of "array", "boolean", `,
		`{"$ref":"https://a.example"}`:                          "is outside of the schema",
		`{"$ref":"file:///etc/passwd"}`:                         "is outside of the schema",
		`{"$ref":"#/$defs/no"}`:                                 "leads to no schema",
		`{"pattern":"("}`:                                       "the schema is none: ",
		`{"$schema":"http://json-schema.org/draft-07/schema#"}`: "only draft 2020-12 is known",
		`{`:     "the schema cannot be read: it is not JSON: unexpected EOF",
		`{} {}`: "something follows",
		`17`:    "the schema is none: ",
		`{"pattern":"` + strings.Repeat("a", MaxPattern+1) + `"}`:                "a pattern of the schema has 1001 bytes, the limit is 1000",
		`{"patternProperties":{"` + strings.Repeat("a", MaxPattern+1) + `":{}}}`: "a pattern of the schema has 1001 bytes, the limit is 1000",
		`{"enum":[0` + strings.Repeat(",1", MaxEnum) + `]}`:                      "the enums of the schema have more than 1000 values",
		`{"title":"` + strings.Repeat("a", MaxBytes) + `"}`:                      "the schema has 65548 bytes, the limit is 65536",
		`{"pattern":"` + strings.Repeat("a{1000}", 22) + `"}`:                    "the patterns have more than 20000 instructions together",
		`{"minimum":1e999999999}`:                                                "has an exponent over 400",
	} {
		if _, err := Compile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
}

// TestBounds uses schemas and values that would take the library hours or gigabytes.
func TestBounds(t *testing.T) {
	// Each level tries the next one twice.
	var twice strings.Builder
	twice.WriteString(`{"$ref":"#/$defs/n0","$defs":{`)
	for i := range 40 {
		fmt.Fprintf(&twice, `"n%d":{"allOf":[{"$ref":"#/$defs/n%d"},{"$ref":"#/$defs/n%d"}]},`, i, i+1, i+1)
	}
	twice.WriteString(`"n40":{"type":"string"}}}`)
	tree := `{"anyOf":[{"const":1},{"properties":{"c":{"$ref":"#"}},"required":["k"]},{"properties":{"c":{"$ref":"#"}},"required":["l"]}]}`
	nested := strings.Repeat(`{"c":`, 60) + "1" + strings.Repeat("}", 60)
	many := "[1" + strings.Repeat(",1", MaxValues-2) + "]"
	var names []string
	for i := range 5000 {
		names = append(names, fmt.Sprintf(`"r%d"`, i))
	}
	for name, c := range map[string]struct{ schema, in, want string }{
		"branches":      {twice.String(), `1`, "the schema takes more than"},
		"deep branches": {tree, nested, "the schema takes more than"},
		"required":      {`{"items":{"required":[` + strings.Join(names, ",") + `]}}`, "[{}" + strings.Repeat(",{}", 40_000) + "]", "the schema takes more than"},
		"pattern":       {`{"pattern":"^(a{1,30}){1,30}$"}`, `"` + strings.Repeat("a", 1<<20) + `"`, "the schema takes more than"},
		"faults":        {`{"items":{"type":"string"}}`, many, "; and 99979 more"},
		"values":        {`{"not":false}`, "[" + many + "," + many + "]", "it has more than 100000 values"},
		"depth":         {`true`, strings.Repeat("[", MaxDepth+1), "it is nested more than 500 deep"},
		"exponent":      {`{"type":"integer"}`, "1e1000000000", "has an exponent over 400"},
		"digits":        {`{"multipleOf":0.1}`, strings.Repeat("1", MaxDigits+1), "a number has 401 characters, the limit is 400"},
		"large number":  {`{"type":"integer"}`, "1e400", ""},
	} {
		s := compile(t, c.schema)
		err := s.Check(context.Background(), []byte(c.in))
		if c.want == "" && name == "large number" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %.300v, want %q", name, err, c.want)
		}
		if err != nil && (len(err.Faults) == 0 || len(err.Faults) > MaxFaults) {
			t.Errorf("%s: %d faults", name, len(err.Faults))
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	plain, whole := strings.NewReplacer(`,"pattern":"^[A-Z]{3}$"`, "", `,"format":"date-time"`, "", `{"const":1}`, `{"type":"integer"}`).Replace(order), order
	s, in := compile(b, plain), []byte(`{"customer":"c","lines":[{"sku":"ABC","n":1},{"sku":"DEF","n":20}],"at":"2026-01-01T00:00:00Z","a/b":"x","kind":1}`)
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := s.Check(context.Background(), in); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		s := compile(b, whole)
		b.ReportAllocs()
		for b.Loop() {
			if err := s.Check(context.Background(), in); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v any
			if err := json.Unmarshal(in, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func FuzzCheck(f *testing.F) {
	f.Add(order, `{"customer":"c","lines":[]}`)
	f.Add(`{"anyOf":[{"$ref":"#"},true]}`, `[1e5,{"a":null}]`)
	f.Add(`{"type":["object","null"],"properties":{"a":{"type":"integer","minimum":-3,"maximum":7},"b":{"$ref":"#/$defs/b"}},"$defs":{"b":
{"anyOf":[{"type":"array","items":{"enum":["x","y"]},"minItems":1,"maxItems":2},{"type":"null"}]}},"required":["a"],"additionalProperties":
{"type":"string","minLength":1,"maxLength":3}}`, `{"a":3,"b":["x"],"c":"abc"}`)
	f.Add(`{"type":"integer"}`, `1.0`)
	f.Add(`{"type":"number","maximum":1}`, `-0`)
	f.Add(`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`, `1`)
	f.Fuzz(func(t *testing.T, schema, in string) {
		s, err := Compile([]byte(schema))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		err2 := s.Check(context.Background(), []byte(in))
		if err2 != nil && (len(err2.Faults) == 0 || err2.Error() == "") {
			t.Errorf("%+v", err2)
		}
		if s.plain.FitsAsRead(context.Background(), strings.NewReader(in)) && err2 != nil {
			t.Errorf("%s for %s: %v, and it fits as it is read", schema, in, err2)
		}
		s.plain = nil // the library alone says the same
		if err3 := s.Check(context.Background(), []byte(in)); (err2 == nil) != (err3 == nil) {
			t.Errorf("%s for %s: %v, by the library %v", schema, in, err2, err3)
		}
	})
}
