package workflow

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A schema says which JSON package json reads into a type: what it refuses, the host refuses before anything is recorded. Names
// that are not those of fields, and fields that are missing, it takes, and so does the schema, unless a tag says more:
//
//	Customer string `json:"customer" jsonschema:"required,minLength=1"`
//
// The schema is stricter in one thing: null for a field or element that has no nil, which package json reads as nothing.

// object is a JSON object in the making.
type object = map[string]any

// deriver makes schemas of types.
type deriver struct {
	output bool // of what is written, not read
	root   reflect.Type
	defs   object
	names  map[reflect.Type]string // of the structs in defs
}

// derived returns the schema of a type.
func derived(t reflect.Type, output bool) object {
	d := &deriver{output: output, root: t, defs: object{}, names: map[reflect.Type]string{}}
	s := d.schema(t, true)
	if len(d.defs) > 0 {
		s["$defs"] = d.defs
	}
	if !output && s["required"] == nil { // no input, and null, is the zero value
		s = nullable(s)
	}
	return s
}

func (d *deriver) schema(t reflect.Type, root bool) object {
	if t == reflect.TypeFor[time.Time]() {
		return object{"type": "string", "format": "date-time"}
	}
	p := reflect.PointerTo(t) // has the methods of t, too
	own, text := unmarshaler, textUnmarshaler
	if d.output {
		own, text = marshaler, textMarshaler
	}
	switch {
	case t.Kind() == reflect.Pointer:
		return nullable(d.schema(t.Elem(), false))
	case p.Implements(own), t == jsonNumber:
		return object{}
	case p.Implements(text):
		return object{"type": "string"}
	}
	switch t.Kind() {
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
	case reflect.Slice:
		elem := reflect.PointerTo(t.Elem())
		if t.Elem().Kind() == reflect.Uint8 && !elem.Implements(own) && !elem.Implements(text) {
			return nullable(object{"type": "string", "contentEncoding": "base64"})
		}
		return nullable(object{"type": "array", "items": d.schema(t.Elem(), false)})
	case reflect.Array:
		return object{"type": "array", "items": d.schema(t.Elem(), false)}
	case reflect.Map:
		return nullable(object{"type": "object", "additionalProperties": d.schema(t.Elem(), false)})
	case reflect.Struct:
		return d.structure(t, root)
	}
	return object{} // any value, or none that package json knows
}

// structure returns the schema of a struct. Those that have a name are written once.
func (d *deriver) structure(t reflect.Type, root bool) object {
	if root || t.Name() == "" {
		return d.fields(t)
	}
	if t == d.root {
		return object{"$ref": "#"}
	}
	name, known := d.names[t]
	if !known {
		name = strings.NewReplacer("[", "_", "]", "_", "/", "_", "*", "_", "·", "_").Replace(t.Name())
		for i := 2; d.defs[name] != nil; i++ {
			name = t.Name() + strconv.Itoa(i)
		}
		d.names[t], d.defs[name] = name, true // it may contain itself
		d.defs[name] = d.fields(t)
	}
	return object{"$ref": "#/$defs/" + name}
}

// field is a field as package json sees it.
type field struct {
	reflect.StructField
	name   string
	tagged bool
	quoted bool // its value is written in quotes
	depth  int  // of structs that are embedded
}

func (d *deriver) fields(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range visible(t) {
		s := d.schema(f.Type, false)
		if f.quoted {
			s = object{"type": "string"}
		}
		if constrain(s, f) {
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

// visible returns the fields of a struct that package json reads: of those with the same name the one that is embedded least
// deeply, or the one that has its name from a tag, or none.
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

// nullable adds null to what a schema takes.
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

// The keys of the tag jsonschema, as github.com/invopop/jsonschema reads them: texts, numbers, truth values, and lists, to which
// each mention adds.
var (
	textKeys   = []string{"title", "description", "format", "pattern"}
	numberKeys = []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
		"minItems", "maxItems", "minProperties", "maxProperties"}
)

// constrain adds what a field's tags say to its schema, and reports whether it is required. A tag that means nothing panics,
// which the upload shows: it would be believed to be checked.
func constrain(s object, f field) (required bool) {
	if text := f.Tag.Get("jsonschema_description"); text != "" {
		s["description"] = text
	}
	tag := f.Tag.Get("jsonschema")
	if tag == "" {
		return false
	}
	const comma = "\x00" // one that is escaped belongs to a value
	for _, part := range strings.Split(strings.ReplaceAll(tag, `\,`, comma), ",") {
		key, value, valued := strings.Cut(strings.ReplaceAll(part, comma, ","), "=")
		_, err := strconv.ParseFloat(value, 64)
		switch {
		case key == "required" && !valued:
			required = true
		case slices.Contains(textKeys, key) && valued:
			s[key] = value
		case slices.Contains(numberKeys, key) && err == nil:
			s[key] = json.Number(value)
		case key == "uniqueItems" && (value == "true" || !valued):
			s[key] = true
		case (key == "enum" || key == "example") && valued:
			to := map[string]string{"enum": "enum", "example": "examples"}[key]
			list, _ := s[to].([]any)
			s[to] = append(list, scalar(f.Type, value))
		case key == "default" && valued:
			s[key] = scalar(f.Type, value)
		default:
			panic(fmt.Sprintf("field %s: the tag jsonschema has %q, which it does not know", f.Name, part))
		}
	}
	return required
}

// scalar returns a value of a tag as one of the field's type.
func scalar(t reflect.Type, value string) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String, reflect.Struct:
		return value
	}
	if json.Valid([]byte(value)) {
		return json.RawMessage(value)
	}
	return value
}
