package workflow

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// tagKeys lists the keys of the tag jsonschema, as github.com/invopop/jsonschema reads them, by the JSON type to which they
// apply; "" is any type.
var tagKeys = map[string][]string{
	"number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
	"string": {"minLength", "maxLength", "format", "pattern"},
	"array":  {"minItems", "maxItems", "uniqueItems"},
	"object": {"minProperties", "maxProperties"},
	"":       {"title", "description", "example", "default", "enum", "required"},
}

// kindOf returns the JSON type to which a key applies. It returns false if the key is unknown.
func kindOf(key string) (string, bool) {
	for kind, keys := range tagKeys {
		if slices.Contains(keys, key) {
			return kind, true
		}
	}
	return "", false
}

// constrain adds a field's tags to its schema, and reports whether the field is required. It panics if a tag is unknown or
// cannot apply to the field's type: the user would believe that the host checks it. The upload shows the panic.
func (d *deriver) constrain(s object, of reflect.Type, f field) (required bool) {
	if text := f.Tag.Get("jsonschema_description"); text != "" {
		s["description"] = text
	}
	tag := f.Tag.Get("jsonschema")
	if tag == "" {
		return false
	}
	const comma = "\x00" // stands for an escaped comma, which belongs to a value
	for _, part := range strings.Split(strings.ReplaceAll(tag, `\,`, comma), ",") {
		part = strings.ReplaceAll(part, comma, ",")
		key, value, valued := strings.Cut(part, "=")
		kind, known := kindOf(key)
		if !known || key != "uniqueItems" && valued == (key == "required") {
			panic(fmt.Sprintf("type %s: field %s: the tag jsonschema has %q, which it does not know", of, f.Name, part))
		}
		d.limits = d.limits || kind != "" || key == "enum" || key == "required"
		to := d.target(s, f, kind, key)
		if to == nil {
			panic(fmt.Sprintf("type %s: field %s: the tag jsonschema has %q, which does not go with the type %s", of, f.Name, part,
				f.Type))
		}
		if wrong := set(to, f, key, value, valued); wrong != "" {
			panic(fmt.Sprintf("type %s: field %s: the tag jsonschema has %q, %s", of, f.Name, part, wrong))
		}
		required = required || key == "required"
	}
	if list, ok := s["enum"].([]any); ok && slices.Contains(typesOf(s), "null") {
		s["enum"] = append(list, nil)
	}
	return required
}

// typesOf returns the JSON types that a schema accepts, nil if it accepts any type.
func typesOf(s object) []string {
	switch t := s["type"].(type) {
	case string:
		return []string{t}
	case []string:
		return t
	}
	return nil
}

// target returns the schema to which a key is added: the schema of the field or of its items. It returns nil if the key
// does not apply to the field.
func (d *deriver) target(s object, f field, kind, key string) object {
	goes := func(s object, t reflect.Type) bool {
		types := d.typesBehind(s)
		switch {
		case t == jsonNumber: // its schema accepts any value
			return kind == "number" || kind == "" && key != "enum"
		case kind == "" && key != "enum", types == nil && (t.Kind() == reflect.Interface || kind == ""):
			return true
		case kind == "number":
			return slices.Contains(types, "number") || slices.Contains(types, "integer")
		case key == "enum":
			return !slices.Contains(types, "array") && !slices.Contains(types, "object")
		}
		return slices.Contains(types, kind)
	}
	t := f.Type
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if goes(s, t) && (kind != "array" || !d.bytes(t)) {
		return s
	}
	if items, ok := s["items"].(object); ok && !d.bytes(t) && (kind != "" || key == "enum") && goes(items, t.Elem()) {
		return items
	}
	return nil
}

// typesBehind is typesOf for the schema to which s refers.
func (d *deriver) typesBehind(s object) []string {
	for range 10 {
		if list, ok := s["anyOf"].([]object); ok { // made by nullable
			s = list[0]
		}
		ref, ok := s["$ref"].(string)
		if !ok {
			break
		}
		def, ok := d.defs[strings.TrimPrefix(ref, "#/$defs/")].(object)
		if !ok {
			return nil
		}
		s = def
	}
	return typesOf(s)
}

// set adds a key to a schema. If the value is invalid, it returns the reason.
func set(s object, f field, key, value string, valued bool) (wrong string) {
	number := json.Valid([]byte(value)) && strings.Trim(value, "0123456789.eE+-") == ""
	switch kind, _ := kindOf(key); {
	case key == "required":
	case key == "uniqueItems":
		if valued && value != "true" {
			return "which is no value of it"
		}
		s[key] = true
	case kind == "number", strings.HasPrefix(key, "min"), strings.HasPrefix(key, "max"):
		if !number {
			return "which is no number of JSON"
		}
		s[key] = json.Number(value)
	case key == "enum" || key == "example":
		to := map[string]string{"enum": "enum", "example": "examples"}[key]
		list, _ := s[to].([]any)
		v := scalar(s, f.Type, value)
		if types := typesOf(s); key == "enum" && types != nil && !slices.Contains(types, "string") {
			if _, text := v.(string); text {
				return "which is no value of its type"
			}
		}
		s[to] = append(list, v)
	case key == "default":
		s[key] = scalar(s, f.Type, value)
	default:
		s[key] = value
	}
	return ""
}

// scalar converts a value in a tag to JSON of the field's type.
func scalar(s object, t reflect.Type, value string) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[time.Time]() || slices.Contains(typesOf(s), "string") || t.Kind() == reflect.String && t != jsonNumber {
		return value
	}
	if json.Valid([]byte(value)) {
		return json.RawMessage(value)
	}
	return value
}
