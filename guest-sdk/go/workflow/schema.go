package workflow

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// A schema describes the JSON that package json decodes into a type. JSON that package json would refuse is refused by the
// host before it records anything. Like package json, the schema accepts unknown names and missing fields, unless a tag
// says otherwise:
//
//	Customer string `json:"customer" jsonschema:"required,minLength=1"`
//
// The schema is stricter in one case: it refuses null for a field or element whose type has no nil. Package json ignores
// such a null.

// object is a JSON object.
type object = map[string]any

// deriver derives schemas from types.
type deriver struct {
	output bool // derive from what package json writes; else from what it reads
	defs   object
	names  map[reflect.Type]string // names in defs
	limits bool                    // a tag restricts the accepted values
}

// maxSchemaBytes is the longest schema that hosts accept: see docs/workflows/schemas.md.
const maxSchemaBytes = 64 << 10

// derived returns the schema of a type. It returns nil if the schema is too long. An input schema with restrictions by tags
// is returned anyway, so that the host refuses the upload instead of checking nothing.
func derived(t reflect.Type, output bool) object {
	d := &deriver{output: output, defs: object{}, names: map[reflect.Type]string{}}
	s := d.derive(t)
	if b, err := json.Marshal(s); err == nil && len(b) > maxSchemaBytes && (output || !d.limits) {
		return nil
	}
	return s
}

func (d *deriver) derive(t reflect.Type) object {
	s := d.schema(t)
	if name, named := d.names[t]; named && len(s) == 1 { // inline the definition at the top, unless it is recursive
		s = object{"$ref": "#/$defs/" + name}
		if def, _ := d.defs[name].(object); !refersTo(d.defs, name) {
			s = def
			delete(d.defs, name)
		}
	}
	if !d.output && s["required"] == nil && !d.requires(s) { // null, like an empty input, is the zero value
		s = nullable(s)
	}
	if len(d.defs) > 0 {
		s["$defs"] = d.defs
	}
	return s
}

// requires reports whether a schema refers to a definition with required fields.
func (d *deriver) requires(s object) bool {
	ref, _ := s["$ref"].(string)
	def, _ := d.defs[strings.TrimPrefix(ref, "#/$defs/")].(object)
	return def["required"] != nil
}

// refersTo reports whether any part of a schema refers to the named definition.
func refersTo(v any, name string) bool {
	switch v := v.(type) {
	case object:
		if v["$ref"] == "#/$defs/"+name {
			return true
		}
		for _, x := range v {
			if refersTo(x, name) {
				return true
			}
		}
	case []object:
		return slices.ContainsFunc(v, func(x object) bool { return refersTo(x, name) })
	}
	return false
}

func (d *deriver) schema(t reflect.Type) object {
	if t == reflect.TypeFor[time.Time]() {
		return object{"type": "string", "format": "date-time"}
	}
	p := reflect.PointerTo(t) // has the methods of t, too
	own, text := unmarshaler, textUnmarshaler
	if d.output {
		own, text = marshaler, textMarshaler
	}
	switch {
	case t.Kind() == reflect.Pointer && t.Name() == "":
		return nullable(d.schema(t.Elem()))
	case p.Implements(own), t == jsonNumber:
		return object{}
	case p.Implements(text):
		if s := (object{"type": "string"}); t.Kind() != reflect.Slice && t.Kind() != reflect.Map {
			return s
		}
		return object{"type": []string{"string", "null"}}
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Array, reflect.Map, reflect.Pointer:
		return d.composed(t)
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Int8, reflect.Int16, reflect.Int32:
		return object{"type": "integer", "minimum": -1 << (t.Bits() - 1), "maximum": 1<<(t.Bits()-1) - 1}
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return object{"type": "integer", "minimum": 0}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return object{"type": "integer", "minimum": 0, "maximum": int64(1)<<t.Bits() - 1}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.String:
		return object{"type": "string"}
	}
	return object{} // an interface, or a type that package json does not support
}

// composed returns the schema of a type with elements or fields. A named type may contain itself, so its schema is written
// once, in $defs, and composed returns a reference.
func (d *deriver) composed(t reflect.Type) object {
	if t.Name() == "" || d.bytes(t) {
		return d.parts(t)
	}
	name, known := d.names[t]
	if !known {
		plain := strings.Map(func(r rune) rune {
			if r < 0x80 && (r == '_' || r == '.' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r)) {
				return r
			}
			return '_'
		}, t.Name())
		name = plain
		for i := 2; d.defs[name] != nil; i++ {
			name = plain + strconv.Itoa(i)
		}
		d.names[t], d.defs[name] = name, object{"type": map[bool]string{true: "array", false: "object"}[t.Kind() == reflect.Slice ||
			t.Kind() == reflect.Array]} // placeholder while parts runs
		d.defs[name] = d.parts(t)
	}
	return object{"$ref": "#/$defs/" + name}
}

// bytes reports whether package json writes a type as base64.
func (d *deriver) bytes(t reflect.Type) bool {
	if t.Kind() != reflect.Slice || t.Elem().Kind() != reflect.Uint8 {
		return false
	}
	elem := reflect.PointerTo(t.Elem())
	if d.output {
		return !elem.Implements(marshaler) && !elem.Implements(textMarshaler)
	}
	return !elem.Implements(unmarshaler) && !elem.Implements(textUnmarshaler)
}

// parts returns the schema of a type with elements or fields, without a reference.
func (d *deriver) parts(t reflect.Type) object {
	switch t.Kind() {
	case reflect.Pointer:
		return nullable(d.schema(t.Elem()))
	case reflect.Slice:
		if d.bytes(t) && d.output {
			return object{"type": []string{"string", "null"}, "contentEncoding": "base64"}
		}
		if d.bytes(t) { // package json also reads an array of numbers
			return object{"type": []string{"string", "array", "null"}, "contentEncoding": "base64", "items": d.schema(t.Elem())}
		}
		return nullable(object{"type": "array", "items": d.schema(t.Elem())})
	case reflect.Array:
		return object{"type": "array", "items": d.schema(t.Elem())}
	case reflect.Map:
		return nullable(object{"type": "object", "additionalProperties": d.schema(t.Elem())})
	}
	return d.fields(t)
}

// field is a field as package json sees it.
type field struct {
	reflect.StructField
	name   string
	tagged bool
	quoted bool // the value is in quotes
	depth  int  // number of embedded structs around it
}

func (d *deriver) fields(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range visible(t) {
		s := d.schema(f.Type)
		if f.quoted {
			s = object{"type": "string"}
			if f.Type.Kind() == reflect.Pointer {
				s = nullable(s)
			}
		}
		if d.constrain(s, t, f) {
			required = append(required, f.name)
		}
		properties[f.name] = s
	}
	s := object{"type": "object"}
	if len(properties) > 0 {
		s["properties"] = properties
	}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// visible returns the fields of a struct that package json reads. If several fields have the same name, the least deeply
// embedded field wins, then a field with a tag. If that leaves several, package json reads none of them.
func visible(t reflect.Type) []field {
	var all []field
	collect(t, 0, map[reflect.Type]bool{}, &all)
	var names []string
	best := map[string][]field{}
	for _, f := range all {
		of, known := best[f.name]
		if !known {
			names = append(names, f.name)
		}
		switch {
		case !known, f.depth < of[0].depth, f.depth == of[0].depth && f.tagged && !of[0].tagged:
			best[f.name] = []field{f}
		case f.depth == of[0].depth && f.tagged == of[0].tagged:
			best[f.name] = append(of, f)
		}
	}
	var fields []field
	for _, name := range names {
		if of := best[name]; len(of) == 1 {
			fields = append(fields, of[0])
		}
	}
	return fields
}

func collect(t reflect.Type, depth int, within map[reflect.Type]bool, to *[]field) {
	if within[t] {
		return
	}
	within[t] = true
	defer delete(within, t)
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if !isName(name) {
			name = ""
		}
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if f.Anonymous && name == "" && of.Kind() == reflect.Struct {
			collect(of, depth+1, within, to)
			continue
		}
		if !f.IsExported() {
			continue
		}
		x := field{StructField: f, name: name, tagged: name != "", depth: depth}
		if name == "" {
			x.name = f.Name
		}
		switch of.Kind() {
		case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32,
			reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
			x.quoted = slices.Contains(strings.Split(options, ","), "string")
		}
		*to = append(*to, x)
	}
}

// isName reports whether package json accepts a name in a tag. It ignores other names.
func isName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// nullable returns a schema that accepts null, too. It may change s.
func nullable(s object) object {
	switch t := s["type"].(type) {
	case string:
		s["type"] = []string{t, "null"}
	case nil:
		if len(s) > 0 { // a reference
			return object{"anyOf": []object{s, {"type": "null"}}}
		}
	}
	return s
}
