package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

type place struct {
	Street string `json:"street"`
	Next   *place
}

type inner struct {
	Shadow string
	Deep   int `json:"deep"`
}

type sampleBase struct {
	inner
	ID int64 `json:"id"`
}

type sample struct {
	sampleBase
	Name    string           `json:"name" jsonschema:"required,minLength=1,maxLength=20,pattern=^[a-z\\,]+$,description=who\\, exactly"`
	Small   int8             `json:"small,omitempty"`
	Size    uint16           `json:"size" jsonschema:"minimum=1,exclusiveMaximum=10"`
	Kind    string           `json:"kind" jsonschema:"enum=a,enum=b,default=a,title=Kind"`
	Level   *int             `json:"level" jsonschema:"enum=1,enum=2"`
	At      time.Time        `json:"at"`
	For     time.Duration    `json:"for" jsonschema_description:"nanoseconds"`
	Raw     json.RawMessage  `json:"raw"`
	Bytes   []byte           `json:"bytes"`
	Grid    [2][]float64     `json:"grid"`
	By      map[string]place `json:"by" jsonschema:"minProperties=1"`
	Any     any              `json:"any"`
	Big     *big.Int         `json:"big"`
	Host    netip.Addr       `json:"host"`
	Quoted  int              `json:"quoted,string"`
	Number  json.Number      `json:"number"`
	Hidden  string           `json:"-"`
	Dash    string           `json:"-,"`
	List    []place          `json:"list" jsonschema:"uniqueItems,minItems=1"`
	Shadow  bool
	private int //nolint:unused // package json does not see it
}

func TestDerivedSchema(t *testing.T) {
	b, err := json.MarshalIndent(derived(reflect.TypeFor[sample](), false), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Type       string
		Required   []string
		Properties map[string]json.RawMessage
		Defs       map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"id": `{"type":"integer"}`, "deep": `{"type":"integer"}`, "Shadow": `{"type":"boolean"}`,
		"name":  `{"description":"who, exactly","maxLength":20,"minLength":1,"pattern":"^[a-z,]+$","type":"string"}`,
		"small": `{"maximum":127,"minimum":-128,"type":"integer"}`, "size": `{"exclusiveMaximum":10,"maximum":65535,"minimum":1,"type":"integer"}`,
		"kind":  `{"default":"a","enum":["a","b"],"title":"Kind","type":"string"}`,
		"level": `{"enum":[1,2,null],"type":["integer","null"]}`, "at": `{"format":"date-time","type":"string"}`,
		"for": `{"description":"nanoseconds","type":"integer"}`, "raw": `{}`, "bytes": `{"contentEncoding":"base64","items":{"maximum":255,"minimum":0,"type":"integer"},"type":["string","array","null"]}`,
		"grid": `{"items":{"items":{"type":"number"},"type":["array","null"]},"type":"array"}`,
		"by":   `{"additionalProperties":{"$ref":"#/$defs/place"},"minProperties":1,"type":["object","null"]}`,
		"any":  `{}`, "big": `{}`, "host": `{"type":"string"}`, "quoted": `{"type":"string"}`, "number": `{}`, "-": `{"type":"string"}`,
		"list": `{"items":{"$ref":"#/$defs/place"},"minItems":1,"type":["array","null"],"uniqueItems":true}`,
	}
	for name, w := range want {
		if g := compacted(t, got.Properties[name]); g != w {
			t.Errorf("%s: %s, want %s", name, g, w)
		}
		delete(got.Properties, name)
	}
	if len(got.Properties) > 0 || got.Type != "object" || strings.Join(got.Required, " ") != "name" {
		t.Errorf("%+v", got)
	}
	if g := compacted(t, got.Defs["place"]); g != `{"properties":{"Next":{"anyOf":[{"$ref":"#/$defs/place"},{"type":"null"}]},"street":{"type":"string"}},"type":"object"}` {
		t.Error(g)
	}
}

func compacted(t *testing.T, b []byte) string {
	t.Helper()
	var v any
	if len(b) == 0 {
		return ""
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	c, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(c)
}

func TestDerivedSchemaOfOtherTypes(t *testing.T) {
	for want, s := range map[string]object{
		`{"type":["integer","null"]}`: derived(reflect.TypeFor[int](), false),
		`{"type":"integer"}`:          derived(reflect.TypeFor[int](), true),
		`{"type":["string","null"]}`:  derived(reflect.TypeFor[string](), false),
		`{"type":["object","null"]}`:  derived(reflect.TypeFor[struct{}](), false),
		`{}`:                          derived(reflect.TypeFor[any](), false),
		`{"$defs":{"place":{"properties":{"Next":{"anyOf":[{"$ref":"#/$defs/place"},{"type":"null"}]},"street":{"type":"string"}},"type":"object"}},"anyOf":[{"$ref":"#/$defs/place"},{"type":"null"}]}`: derived(reflect.TypeFor[place](), false),
		`{"$defs":{"nest":{"items":{"$ref":"#/$defs/nest"},"type":["array","null"]}},"anyOf":[{"$ref":"#/$defs/nest"},{"type":"null"}]}`:                                                                 derived(reflect.TypeFor[nest](), false),
	} {
		b, err := json.Marshal(s)
		if err != nil || string(b) != want {
			t.Errorf("%s, %v, want %s", b, err, want)
		}
	}
}

type (
	nest []nest
	kids []kid
	kid  struct {
		Kids kids `jsonschema:"maxItems=1"`
	}
	tree       map[string]tree
	box[T any] struct{ V T }
	worded     int
	strict     struct {
		N string `jsonschema:"required"`
	}
)

func (w *worded) UnmarshalText([]byte) error { return nil }

// TestDerivedSchemaTakes: a host accepts what package json decodes, for types that are pointers, recursive or have
// unusual names, and for tags that package json ignores.
func TestDerivedSchemaTakes(t *testing.T) {
	type percent = box[struct {
		A int `json:"a%b"`
	}]
	for _, c := range []struct {
		t   reflect.Type
		in  []string
		bad string
	}{
		{reflect.TypeFor[*place](), []string{`{"Next":{"street":"a"}}`, `null`}, `{"street":7}`},
		{reflect.TypeFor[*strict](), []string{`{"N":"a"}`, `null`}, `{}`},
		{reflect.TypeFor[**place](), []string{`{"street":"a"}`, `null`}, `7`},
		{reflect.TypeFor[nest](), []string{`[[],[[]],null]`, `null`}, `[[7]]`},
		{reflect.TypeFor[kids](), []string{`[{"Kids":[{}]}]`}, `[{"Kids":[{},{}]}]`},
		{reflect.TypeFor[tree](), []string{`{"a":{"b":{}}}`}, `{"a":7}`},
		{reflect.TypeFor[struct{ A, B *tree }](), []string{`{"A":{},"B":null}`}, `{"A":7}`},
		{reflect.TypeFor[struct{ P percent }](), []string{`{"P":{"V":{"a%b":1}}}`}, `{"P":{"V":{"a%b":"x"}}}`},
		{reflect.TypeFor[struct {
			A box[map[string]*place]
			B *box[any]
		}](), []string{`{"A":{"V":{"x":{}}},"B":{"V":1}}`}, `{"A":{"V":7}}`},
		{reflect.TypeFor[struct{ B []byte }](), []string{`{"B":[1,2,3]}`, `{"B":"AQ=="}`, `{"B":null}`}, `{"B":[256]}`},
		{reflect.TypeFor[struct{ IP net.IP }](), []string{`{"IP":null}`, `{"IP":"1.2.3.4"}`}, `{"IP":7}`},
		{reflect.TypeFor[struct {
			P *int64 `json:"p,string"`
		}](), []string{`{"p":null}`, `{"p":"1"}`}, `{"p":1}`},
		{reflect.TypeFor[struct {
			L string `json:"it's" jsonschema:"required"`
		}](), []string{`{"L":"a"}`}, `{"it's":"a"}`},
		{reflect.TypeFor[struct {
			inner `json:"it's"`
		}](), []string{`{"Shadow":"a"}`}, `{"Shadow":7}`},
		{reflect.TypeFor[struct {
			L []string `jsonschema:"enum=a,enum=b,minItems=1"`
		}](), []string{`{"L":["a"]}`}, `{"L":["c"]}`},
		{reflect.TypeFor[struct {
			L *string `jsonschema:"enum=a"`
		}](), []string{`{"L":null}`, `{"L":"a"}`}, `{"L":"b"}`},
		{reflect.TypeFor[struct {
			L worded `jsonschema:"enum=1,enum=2"`
		}](), []string{`{"L":"1"}`}, `{"L":"3"}`},
		{reflect.TypeFor[struct {
			L int64 `json:",string" jsonschema:"enum=1,enum=2"`
		}](), []string{`{"L":"1"}`}, `{"L":"3"}`},
		{reflect.TypeFor[struct {
			L any `jsonschema:"enum=1,enum=a"`
		}](), []string{`{"L":1}`, `{"L":"a"}`}, `{"L":"b"}`},
		{reflect.TypeFor[struct {
			P *place `jsonschema:"minProperties=1"`
			Q nest   `jsonschema:"maxItems=1"`
		}](), []string{`{"P":{"street":"a"},"Q":[[]]}`}, `{"P":{}}`},
	} {
		b, err := json.Marshal(derived(c.t, false))
		if err != nil {
			t.Fatal(c.t, err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("https://schema.invalid", doc); err != nil {
			t.Fatal(err)
		}
		s, err := compiler.Compile("https://schema.invalid")
		if err != nil {
			t.Errorf("%v: %v %s", c.t, err, b)
			continue
		}
		fits := func(in string) error {
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(in))
			if err != nil {
				t.Fatal(err)
			}
			return s.Validate(v)
		}
		for _, in := range c.in {
			if err := json.Unmarshal([]byte(in), reflect.New(c.t).Interface()); err != nil {
				t.Errorf("%v: %s: %v", c.t, in, err)
			}
			if err := fits(in); err != nil {
				t.Errorf("%v: %s: %v, of %s", c.t, in, err, b)
			}
		}
		if fits(c.bad) == nil {
			t.Errorf("%v: %s fits, of %s", c.t, c.bad, b)
		}
	}
}

// TestTagsThatMeanNothing: tags that are unknown, are not JSON, or that no value of the field can meet panic.
func TestTagsThatMeanNothing(t *testing.T) {
	for _, of := range []any{
		struct {
			A int `jsonschema:"requird"`
		}{}, struct {
			A int `jsonschema:"minimum=one"`
		}{}, struct {
			A float64 `jsonschema:"maximum=.5"`
		}{}, struct {
			A int `jsonschema:"minimum=+1"`
		}{}, struct {
			A float64 `jsonschema:"maximum=inf"`
		}{}, struct {
			A float64 `jsonschema:"minimum=0x10"`
		}{}, struct {
			A int `jsonschema:"minLength=1"`
		}{}, struct {
			A string `jsonschema:"minimum=1"`
		}{}, struct {
			A int64 `json:",string" jsonschema:"minimum=1"`
		}{}, struct {
			A json.Number `jsonschema:"enum=1"`
		}{}, struct {
			A int `jsonschema:"enum=one"`
		}{}, struct {
			A place `jsonschema:"enum=one"`
		}{}, struct {
			A []byte `jsonschema:"minItems=1"`
		}{}, struct {
			A []string `jsonschema:"minimum=1"`
		}{}, struct {
			A []int `jsonschema:"uniqueItems=no"`
		}{},
	} {
		func() {
			defer func() {
				if r, _ := recover().(string); !strings.Contains(r, "type struct {") || !strings.Contains(r, "field A: the tag jsonschema has") {
					t.Errorf("%T: %q", of, r)
				}
			}()
			derived(reflect.TypeOf(of), false)
		}()
	}
}

// TestLongSchemas omits schemas that exceed the host's limit, except if that would drop checks that tags ask for.
func TestLongSchemas(t *testing.T) {
	wide := func(tag reflect.StructTag) reflect.Type {
		var fields []reflect.StructField
		for i := range 4000 {
			fields = append(fields, reflect.StructField{Name: fmt.Sprint("F", i), Type: reflect.TypeFor[string](), Tag: tag})
		}
		return reflect.StructOf(fields)
	}
	plain, tagged := wide(`jsonschema:"description=a"`), wide(`jsonschema:"minLength=1"`)
	if derived(plain, false) != nil || derived(plain, true) != nil || derived(tagged, true) != nil || derived(tagged, false) == nil {
		t.Error("a schema that is too long")
	}
}
