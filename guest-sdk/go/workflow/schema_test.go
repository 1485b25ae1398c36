package workflow

import (
	"encoding/json"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
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
		"level": `{"enum":[1,2],"type":["integer","null"]}`, "at": `{"format":"date-time","type":"string"}`,
		"for": `{"description":"nanoseconds","type":"integer"}`, "raw": `{}`, "bytes": `{"contentEncoding":"base64","type":["string","null"]}`,
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
		`{"properties":{"Next":{"anyOf":[{"$ref":"#"},{"type":"null"}]},"street":{"type":"string"}},"type":["object","null"]}`: derived(reflect.TypeFor[place](), false),
	} {
		b, err := json.Marshal(s)
		if err != nil || string(b) != want {
			t.Errorf("%s, %v, want %s", b, err, want)
		}
	}
}

func TestTagThatIsNotKnown(t *testing.T) {
	for _, f := range []func(){
		func() {
			derived(reflect.TypeFor[struct {
				A int `jsonschema:"requird"`
			}](), false)
		},
		func() {
			derived(reflect.TypeFor[struct {
				A int `jsonschema:"minimum=one"`
			}](), false)
		},
	} {
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.Contains(r.(string), "field A: the tag jsonschema has") {
					t.Error(r)
				}
			}()
			f()
		}()
	}
}
