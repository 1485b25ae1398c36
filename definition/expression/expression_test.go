package expression

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
)

var env = map[string]any{
	"input": map[string]any{"n": 3, "big": 9007199254740993, "f": 1.5, "name": "Ada", "list": []any{1, 2, 3}, "a-b": true, "none": nil},
	"steps": map[string]any{"charge": map[string]any{"output": map[string]any{"id": "c1"}}, "cool-down": map[string]any{"output": 7}},
}

func eval(t *testing.T, text string) (any, error) {
	t.Helper()
	e, err := Compile(text, []string{"input", "steps"})
	if err != nil {
		return nil, err
	}
	return e.Eval(env)
}

// TestEval evaluates expressions as definitions use them, and compares the results as JSON.
func TestEval(t *testing.T) {
	for text, want := range map[string]string{
		`input.n + 1`: "4",
		`input.big`:   "9007199254740993",
		`input.n == 3 && input.name startsWith "A"`:           "true",
		`steps.charge.output.id`:                              `"c1"`,
		`steps["cool-down"].output`:                           "7",
		`steps?.["missing"]?.["output"]`:                      "null",
		`input?.["a-b"]`:                                      "true",
		`input.missing`:                                       "null",
		`input.missing?.deeper`:                               "null",
		`input.missing ?? "default"`:                          `"default"`,
		`map(input.list, # * 2)`:                              "[2,4,6]",
		`filter(input.list, # > 1)[0]`:                        "2",
		`keys({"b": 1, "a": 2})`:                              `["a","b"]`,
		`values({"b": 1, "a": 2})`:                            "[2,1]",
		`toPairs({"b": 1, "a": 2})`:                           `[["a",2],["b",1]]`,
		`groupBy(input.list, # > 1)`:                          `{"false":[1],"true":[2,3]}`,
		`{"x": input.f, "y": [1, nil]}`:                       `{"x":1.5,"y":[1,null]}`,
		`date("2026-01-05T09:00:00Z")`:                        `"2026-01-05T09:00:00Z"`,
		`date("2026-01-05T09:00:00Z") + duration("1h")`:       `"2026-01-05T10:00:00Z"`,
		`duration("90s")`:                                     `"1m30s"`,
		`let x = input.n; x * x`:                              "9",
		`1..3`:                                                "[1,2,3]",
		`fromJSON("{\"a\": [1]}").a[0]`:                       "1",
		`len(input.name)`:                                     "3",
		`input.name matches "^A"`:                             "true",
		`type(input.n) in ["int", "float"] && input.n >= 2.5`: "true",
	} {
		v, err := eval(t, text)
		b, _ := json.Marshal(v)
		if err != nil || string(b) != want {
			t.Errorf("%s: %s %v, want %s", text, b, err, want)
		}
	}
}

// TestRefused lists refused expressions with a part of the error.
func TestRefused(t *testing.T) {
	deep := "[" + strings.Repeat("[", 600) + strings.Repeat("]", 600) + "]"
	for text, want := range map[string]string{
		"":                                 "empty",
		" ":                                "empty",
		"\xff":                             "UTF-8",
		strings.Repeat("1+", 3000) + "1":   "4096",
		strings.Repeat("1+", 1500) + "1":   "nodes",
		"input.":                           "unexpected",
		"unknown + 1":                      "unknown name unknown",
		"now()":                            "now",
		"input.name + 1":                   "string + int", // at evaluation
		"input.missing.deeper":             "cannot fetch deeper",
		"1 / 0 * input.n":                  "+Inf",
		"1..1000000":                       "memory budget",
		"sum(map(1..100000, 1..100))":      "memory budget",
		"keys(1)":                          "map is needed",
		"keys()":                           "map is needed",
		"repeat(\"x\", 10000000)":          "memory budget",
		"fromJSON(input.name)":             "invalid character",
		"fromJSON(\"" + deep + "\")":       "levels deep",
		"input.n(1)":                       "int",
		doubled(40) + "x40":                "values",
		"input.n matches \"(\"":            "missing",
		"first(input.name.x.y)":            "invalid operation",
		"date(\"yesterday\")":              "invalid date",
		"input.list[10]":                   "out of range",
		"toJSON(input.n) + input.list[-9]": "out of range",
	} {
		if v, err := eval(t, text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %v %v, want %q", text, v, err, want)
		}
	}
}

// doubled returns an expression that doubles a value n times: small in memory, but large in JSON.
func doubled(n int) string {
	text := "let x0 = [input.n, input.n]; "
	for i := 1; i <= n; i++ {
		text += "let x" + strconv.Itoa(i) + " = [x" + strconv.Itoa(i-1) + ", x" + strconv.Itoa(i-1) + "]; "
	}
	return text
}

func TestSteps(t *testing.T) {
	e, err := Compile(`steps.b.output + steps["a"].output + steps?.["c d"]?.output + steps[input.name] + input.steps.no`,
		[]string{"input", "steps"})
	if err != nil || strings.Join(e.Steps(), ",") != "a,b,c d" || !strings.HasPrefix(e.String(), "steps.b") || !e.AnyStep() {
		t.Fatal(e, err)
	}
	for text, want := range map[string]bool{`steps.a.output ?? steps["b"]`: false, "input.steps": false, "keys(steps)": true, "$env": true,
		`$env["steps"]`: true, "get(steps, \"a\")": true, "let s = steps; s.a": true, "map([1], steps.a)": false} {
		if e, err := Compile(text, []string{"input", "steps"}); err != nil || e.AnyStep() != want {
			t.Error(text, err)
		}
	}
}

func TestTruth(t *testing.T) {
	for _, v := range []any{nil, false, 0, 0.0, ""} {
		if Truth(v) {
			t.Error(v)
		}
	}
	for _, v := range []any{true, 1, -0.5, "0", []any{}, map[string]any{}} {
		if !Truth(v) {
			t.Error(v)
		}
	}
}

func TestPlain(t *testing.T) {
	type text string
	for _, c := range []struct {
		v    any
		want string
	}{{uint8(7), "7"}, {int64(-1), "-1"}, {float32(0.5), "0.5"}, {text("x"), `"x"`}, {[]byte("hi"), `"aGk="`}, {[2]string{"a", "b"}, `["a","b"]`},
		{map[any]any{1: "x"}, `{"1":"x"}`}, {time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC), `"2026-01-05T09:00:00Z"`}} {
		v, err := Plain(c.v)
		if b, _ := json.Marshal(v); err != nil || string(b) != c.want {
			t.Errorf("%v: %s %v", c.v, b, err)
		}
	}
	for _, v := range []any{func() {}, make(chan int), struct{}{}, []any{func() {}}, map[string]any{"x": func() {}}} {
		if got, err := Plain(v); err == nil {
			t.Errorf("%T: %v", v, got)
		}
	}
	if _, err := sorted(nil)(func() {}); err == nil {
		t.Error("keys of a function")
	}
}

func TestDecode(t *testing.T) {
	v, err := Decode([]byte(`{"i":9007199254740993,"f":1.5,"e":1e3,"l":[1],"n":null}`))
	if b, _ := json.Marshal(v); err != nil || string(b) != `{"e":1000,"f":1.5,"i":9007199254740993,"l":[1],"n":null}` {
		t.Fatal(string(b), err)
	}
	if v, err := Decode(nil); v != nil || err != nil {
		t.Fatal(v, err)
	}
	if v, err := Decode([]byte("{")); err == nil {
		t.Fatal(v)
	}
}

// FuzzExpression compiles and evaluates texts: nothing panics, and each result can be encoded as JSON.
func FuzzExpression(f *testing.F) {
	for _, s := range []string{"input.n + 1", `keys(input)`, "let x = 1; x", "map(1..9, # ?? nil)", `steps["a"]?.b`, "if true { 1 } else { 2 }",
		`groupBy(input.list, #)`, "1..9 | map(# * 2) | sum()", "toJSON(input)", `date("2026-01-01")`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 200 {
			return // nested loops take long; in a guest, fuel limits them
		}
		v, err := eval(t, text)
		if err != nil {
			return
		}
		if _, err := json.Marshal(v); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
