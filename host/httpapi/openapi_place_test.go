package httpapi

import (
	"encoding/json"
	"testing"
)

// TestPlaced keeps numbers as they are written, makes references point to the schema's place, and does not change
// values.
func TestPlaced(t *testing.T) {
	for in, want := range map[string]string{
		`{"enum":[9007199254740993]}`:                                       `{"enum":[9007199254740993]}`,
		`{"maximum":1e400}`:                                                 `{"maximum":1e400}`,
		`{"$ref":"#a","$defs":{"x y":{"$anchor":"a"}}}`:                     `{"$defs":{"x y":{}},"$ref":"#/components/schemas/Input/$defs/x%20y"}`,
		`{"const":{"$ref":"#x"},"enum":[{"$ref":"#"}]}`:                     `{"const":{"$ref":"#x"},"enum":[{"$ref":"#"}]}`,
		`{"properties":{"$ref":{"type":"string"},"const":{"$ref":"#"}}}`:    `{"properties":{"$ref":{"type":"string"},"const":{"$ref":"#/components/schemas/Input"}}}`,
		`{"$id":"https://a.example/s","$ref":"#/$defs/a","$defs":{"a":{}}}`: `{"$defs":{"a":{}},"$ref":"#/components/schemas/Input/$defs/a"}`,
		`{"allOf":[{"$ref":"#/$defs/a"}],"items":{"$ref":"#/$defs/a"}}`:     `{"allOf":[{"$ref":"#/components/schemas/Input/$defs/a"}],"items":{"$ref":"#/components/schemas/Input/$defs/a"}}`,
	} {
		if b, err := json.Marshal(placed(json.RawMessage(in), "Input")); err != nil || string(b) != want {
			t.Errorf("%s: %s %v, want %s", in, b, err, want)
		}
	}
}
