package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wfhost/wfhost/store"
)

// TestInputDigest compares inputs: inputs of one group are equal, whatever their white space and order, and differ
// from other groups.
func TestInputDigest(t *testing.T) {
	groups := [][]string{
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, " {\n\"b\": 2, \"a\": 1}"},
		{`{"a":1,"b":2.0}`}, {`{"a":2,"b":1}`}, {`{"a":1}`}, {`[{"a":1},{"b":2}]`}, {`[{"b":2},{"a":1}]`},
		{`{"x":{"b":[{"d":1,"c":2}],"a":{}}}`, `{"x":{"a":{},"b":[{"c":2,"d":1}]}}`},
		{`{"a":"{\"b\":1,\\","c":""}`, `{"c":"","a":"{\"b\":1,\\"}`},
		{`{"a":1,"a":2}`}, {`{"a":2,"a":1}`}, // nobody knows which one counts
		{`"a<b&c>d/é"`, `"a\u003cb\u0026c\u003Ed\/\u00e9"`}, {`"\\u0026"`}, {`"&"`, `"\u0026"`},
		{`"\n\"\\"`, `"\u000a\u0022\u005c"`}, {`"n"`}, {`"\u0000\u001f"`, `"\u0000\u001F"`}, {"\"\u2028\x7f\"", `"\u2028\u007f"`},
		{`"😀"`, `"\ud83d\ude00"`, `"\uD83D\uDE00"`}, {`"\ud83d"`, `"\uD83D"`}, {`"\ude00\ud83d"`}, {`"�"`, `"\ufffd"`}, {"\"\xff\""},
		{`"\ud83d\u0061"`, `"\ud83da"`}, {`{"<":1,"a":2}`, `{"a":2,"\u003c":1}`}, {`{"\u007a":1,"b":2}`, `{"b":2,"z":1}`},
		{`null`}, {`"a,b"`}, {`"b,a"`}, {``}, {`{"b":2,"a":1`}, {`{"a":1,"b":2} x`}, {`{}`, `{ }`}, {`[]`}, {`-1e5`}, {`true`},
	}
	seen := map[[32]byte]int{}
	for i, group := range groups {
		for _, text := range group {
			d := InputDigest([]byte(text))
			if j, ok := seen[d]; ok && j != i {
				t.Errorf("%s is taken for one of %q", text, groups[j])
			} else if want := InputDigest([]byte(group[0])); d != want {
				t.Errorf("%s is not taken for %s", text, group[0])
			}
			seen[d] = i
		}
	}
}

// TestIsInputDigest accepts the digests that earlier releases have stored, and no others.
func TestIsInputDigest(t *testing.T) {
	sum := func(text string) store.Digest { return sha256.Sum256([]byte(text)) }
	for _, c := range []struct {
		stored store.Digest
		input  string
		want   bool
	}{
		{sum(`{"b":1,"a":2}`), `{"b": 1, "a": 2}`, true},       // as it was written
		{sum(`{"a":2,"b":1}`), `{"b":1,"a":2}`, true},          // sorted
		{sum(`{"a":"\u0026"}`), `{"a":"\u0026"}`, true},        // as it was escaped
		{sum(`{"a":"\u003c","b":1}`), `{"b":1,"a":"<"}`, true}, // by a client
		{sum(`{"a":"é","b":1}`), `{"b":1,"a":"\u00e9"}`, true}, // of this release
		{sum(`{"a":"\u00e9"}`), `{"a":"é"}`, false},            // no client has escaped it
		{sum(`no <JSON`), `no <JSON`, true},
		{sum(`no \u003cJSON`), `no <JSON`, false},
		{sum(`{"a":1}`), `{"a":2}`, false},
	} {
		if got := IsInputDigest(c.stored, []byte(c.input)); got != c.want {
			t.Errorf("%s: %v", c.input, got)
		}
	}
}

// TestSortedValues sorts values that package json has written in any order, and reads them again.
func TestSortedValues(t *testing.T) {
	value := rapid.Custom(func(t *rapid.T) any { return anyValue(t, 3) })
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.Marshal(value.Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		got, end := (&sorter{text: text}).value(nil, 0, 0)
		if end != len(text) || !bytes.Equal(got, text) { // json sorts, too
			t.Fatalf("%s became %s, up to %d of %d", text, got, end, len(text))
		}
		plain, _ := (&sorter{text: text, unescape: true}).value(nil, 0, 0)
		var before, after any
		if err := errors.Join(json.Unmarshal(text, &before), json.Unmarshal(plain, &after)); err != nil || !reflect.DeepEqual(before, after) {
			t.Fatalf("%s became %s: %v", text, plain, err)
		}
		if again := InputDigest(plain); again != InputDigest(text) || again != sha256.Sum256(plain) {
			t.Fatalf("%s is not as it stays", plain)
		}
	})
}

func anyValue(t *rapid.T, depth int) any {
	switch rapid.IntRange(0, 2+2*min(depth, 1)).Draw(t, "kind") {
	case 0:
		return rapid.String().Draw(t, "text")
	case 1:
		return rapid.Float64Range(-1e9, 1e9).Draw(t, "number")
	case 2:
		return rapid.SampledFrom([]any{nil, true, false}).Draw(t, "word")
	case 3:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list = append(list, anyValue(t, depth-1))
		}
		return list
	}
	object := map[string]any{}
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		object[rapid.SampledFrom([]string{"", "a", "b", "aa", "z"}).Draw(t, "name")] = anyValue(t, depth-1)
	}
	return object
}

// TestDeepInputs accepts inputs nested as deeply as package json allows, with the members of each level in the wrong
// order.
func TestDeepInputs(t *testing.T) {
	const depth = 9000
	pad := strings.Repeat("x", 100)
	deep := strings.Repeat(`{"b":"`+pad+`","a":`, depth) + "1" + strings.Repeat("}", depth)
	begun := time.Now()
	d := InputDigest([]byte(deep))
	if took := time.Since(begun); took > 10*time.Second { // without a bound, 4 GB are copied
		t.Error(took)
	}
	if d == InputDigest([]byte(strings.Replace(deep, "1", "2", 1))) {
		t.Error("what lies deep makes no difference")
	}
}
