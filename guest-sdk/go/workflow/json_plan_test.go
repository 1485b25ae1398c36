package workflow

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

type planned struct {
	ID      string `json:"id"`
	Count   int
	Small   int8    `json:"small,omitempty"`
	Middle  int32   `json:"middle"`
	Price   float64 `json:"price,omitempty"`
	On      bool    `json:"on,omitempty"`
	Lines   []line  `json:"lines"`
	Tags    []string
	Empty   []int `json:"empty,omitempty"`
	hidden  int
	Skipped func() `json:"-"`
	Inner   struct {
		A, B int64
		Deep line
	} `json:"inner,omitempty"`
}

type line struct {
	SKU string  `json:"sku"`
	N   []int16 `json:"n,omitempty"`
}

// Types that are package json's.
type (
	recursive struct{ Next []recursive }
	embedding struct{ line }
	inQuotes  struct {
		N int `json:",string"`
	}
	ambiguous struct{ Name, NAME string }
	timed     struct{ At time.Time }
	mapped    struct{ M map[string]int }
	pointing  struct{ P *int }
	anything  struct{ V any }
	bytesOf   struct{ B []byte }
	special   struct {
		N int `json:"a<b"`
	}
	numbered struct{ N json.Number }
	upper    string
)

func (u upper) MarshalText() ([]byte, error) { return []byte(strings.ToUpper(string(u))), nil }

func TestPlanOf(t *testing.T) {
	for _, v := range []any{planned{}, line{}, []line{}, [][]string{}, struct{}{}} {
		if planOf(reflect.TypeOf(v)) == nil {
			t.Errorf("%T has no plan", v)
		}
	}
	for _, v := range []any{recursive{}, embedding{}, inQuotes{}, ambiguous{}, timed{}, mapped{}, pointing{}, anything{}, bytesOf{}, special{}, numbered{},
		[]json.Number{}, upper(""), []upper{}, []byte{}, 1, "", map[string]int{}, [2]int{}, struct{ U upper }{}, struct{ N uint }{}, struct{ F float32 }{}} {
		if planOf(reflect.TypeOf(v)) != nil {
			t.Errorf("%T has a plan", v)
		}
	}
}

// same checks that a value is encoded as by package json, and decoded again.
func same(t *testing.T, v any) {
	t.Helper()
	got, err := jsonCodec{}.Marshal(v)
	want, wantErr := json.Marshal(v)
	if string(got) != string(want) || (err == nil) != (wantErr == nil) {
		t.Errorf("%#v: %s %v, not %s %v", v, got, err, want, wantErr)
	}
	if err == nil {
		sameText(t, string(got), reflect.TypeOf(v))
	}
}

// sameText checks that a text is decoded as by package json, into a new value and into an existing one.
func sameText(t *testing.T, text string, typ reflect.Type) {
	t.Helper()
	got, want := reflect.New(typ), reflect.New(typ)
	for range 2 {
		err, wantErr := jsonCodec{}.Unmarshal([]byte(text), got.Interface()), json.Unmarshal([]byte(text), want.Interface())
		if !reflect.DeepEqual(got.Interface(), want.Interface()) || !reflect.DeepEqual(err, wantErr) {
			t.Fatalf("%q into %v: %#v %v, not %#v %v", text, typ, got.Elem(), err, want.Elem(), wantErr)
		}
	}
}

func TestPlannedValues(t *testing.T) {
	full := planned{ID: "a-1", Count: math.MinInt, Small: -128, Middle: math.MaxInt32, Price: 0.1, On: true, hidden: 1,
		Lines: []line{{"x", []int16{1, -32768, 32767}}, {}}, Tags: []string{"a b", ""}, Empty: []int{0}}
	full.Inner.A, full.Inner.B, full.Inner.Deep.SKU = 1_700_000_000_000, math.MaxInt64, "deep"
	same(t, full)
	same(t, planned{})
	same(t, []planned{full, {}})
	same(t, &full)
	same(t, [][]string{nil, {}, {"a"}})
	for _, f := range []float64{0, math.Copysign(0, -1), 1, -1.5, 1e-6, 1e-7, 9.99e20, 1e21, math.MaxFloat64, math.NaN(), math.Inf(1), 123456789.125} {
		same(t, planned{Price: f})
	}
	for _, s := range []string{"quo\"te", "<&>", "ä", "\x7f", "\n", "\xff", "\u2028"} {
		same(t, planned{ID: s, Tags: []string{s}})
	}
	for _, v := range []any{recursive{Next: []recursive{{}}}, embedding{line{"x", nil}}, inQuotes{5}, ambiguous{"a", "b"}, timed{time.Unix(0, 0).UTC()},
		mapped{map[string]int{"a": 1}}, pointing{}, anything{[]any{1.0}}, bytesOf{[]byte("abc")}, special{1}, numbered{"12.5"},
		[]json.Number{"1", "x"}, upper("u"), [2]int{1, 2}} {
		same(t, v)
	}
}

var plannedTexts = []string{
	`{}`, ` { } `, `null`, `[]`, `"x"`, `{`, `{"id"`, `{"id":`, `{"id":"a"`, `{"id":"a",}`, `{"id":"a"}x`, `{"id":"a"} `,
	`{"id":"a","Count":1}`, `{"Count":1,"id":"a"}`, `{"count":1}`, `{"ID":"a"}`, `{"unknown":1}`, `{"id":"a","id":"b"}`, `{"id":null}`,
	`{"id":"\u00e4"}`, `{"id":"ä"}`, "{\"id\":\"\xff\"}", "{\"id\":\"a\tb\"}", `{"i\u0064":"a"}`, `{"id":1}`, `{"id":tru}`,
	`{"Count":-0}`, `{"Count":01}`, `{"Count":1.0}`, `{"Count":1e3}`, `{"Count":-}`, `{"Count":9223372036854775807}`, `{"Count":9223372036854775808}`,
	`{"Count":999999999999999999}`, `{"Count":"1"}`, `{"Count":1 }`, `{"Count":+1}`, `{"small":127}`, `{"small":128}`, `{"middle":2147483648}`,
	`{"price":1}`, `{"price":1.5}`, `{"price":1.}`, `{"price":.5}`, `{"price":-0}`, `{"price":1e5}`, `{"price":1E-5}`, `{"price":00.5}`,
	`{"on":true}`, `{"on":false}`, `{"on":truefalse}`, `{"on":"true"}`, `{"on":1}`, `{"lines":[]}`, `{"lines":[ ]}`, `{"lines":null}`,
	`{"lines":[{"sku":"x","n":[1,2,3,4,5,6,7,8,9]},{}]}`, `{"lines":[{"sku":"x"},]}`, `{"lines":[{} {}]}`, `{"lines":[1]}`, `{"lines":{}}`,
	`{"lines":[{"sku":"x"}],"lines":[{"n":[1]}]}`, `{"Tags":["a","b"],"Tags":["c"]}`, `{"Tags":[null]}`, `{"empty":[1,2]}`, `{"hidden":1}`,
	`{"inner":{"A":1,"B":2,"Deep":{"sku":"y"}}}`, `{"inner":{"A":1},"inner":{"B":2}}`, `{"inner":null}`, `{"inner":[]}`,
	"\n{\t\"id\" :\r\"a\" , \"Count\" : 2 }\n", `{"id":"a""Count":1}`, `{"id" "a"}`, `{,}`, `{"lines":[{"n":[32768]}]}`,
	`{"id":"a","lines":[{"sku":"\n"}]}`,
}

func TestPlannedTexts(t *testing.T) {
	for _, text := range plannedTexts {
		sameText(t, text, reflect.TypeFor[planned]())
		sameText(t, text, reflect.TypeFor[[]line]())
		sameText(t, "["+text+"]", reflect.TypeFor[[]planned]())
	}
	sameText(t, `{"N":"x"}`, reflect.TypeFor[numbered]())
	if err := (jsonCodec{}).Unmarshal([]byte(`{}`), (*planned)(nil)); err == nil {
		t.Error("nil takes a value")
	}
}

// FuzzPlanned compares with package json.
func FuzzPlanned(f *testing.F) {
	for _, text := range plannedTexts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sameText(t, text, reflect.TypeFor[planned]())
		var v planned
		if json.Unmarshal([]byte(text), &v) == nil {
			same(t, v)
		}
	})
}

func BenchmarkCodec(b *testing.B) {
	text := []byte(`{"id":"order-1","Count":3,"middle":5,"price":9.75,"lines":[{"sku":"x","n":[1]}],"Tags":["a"]}`)
	var v planned
	if err := json.Unmarshal(text, &v); err != nil {
		b.Fatal(err)
	}
	for name, c := range map[string]Codec{"plan": jsonCodec{}, "json": packageJSON{}} {
		b.Run("read/"+name, func(b *testing.B) {
			for b.Loop() {
				var v planned
				_ = c.Unmarshal(text, &v)
			}
		})
		b.Run("write/"+name, func(b *testing.B) {
			for b.Loop() {
				_, _ = c.Marshal(v)
			}
		})
	}
}

type packageJSON struct{}

func (packageJSON) Marshal(v any) ([]byte, error)   { return json.Marshal(v) }
func (packageJSON) Unmarshal(b []byte, v any) error { return json.Unmarshal(b, v) }
