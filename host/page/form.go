package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/wfhost/wfhost/abi"
)

// maxFields bounds the fields of a form: an input with more fields is written as JSON.
const maxFields = 40

// property has the parts of a property's schema that make a field. The rest of the schema is checked when the form is
// sent.
type property struct {
	Type        any               `json:"type"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Enum        []json.RawMessage `json:"enum"`
	Format      string            `json:"format"`
	Default     json.RawMessage   `json:"default"`
}

// kinds maps the types of JSON Schema to the types of fields.
var kinds = map[string]string{"string": "text", "integer": "number", "number": "decimal", "boolean": "check"}

// fieldsOf returns the fields of a form from the schema of an input, in the schema's order. It returns none for
// schemas other than of an object with properties.
func fieldsOf(schema json.RawMessage) (list []field) {
	var s struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if json.Unmarshal(schema, &s) != nil || len(s.Properties) == 0 {
		return nil
	}
	names := membersOf(s.Properties)
	var properties map[string]json.RawMessage
	if json.Unmarshal(s.Properties, &properties) != nil || len(names) > maxFields {
		return nil
	}
	for _, name := range names {
		var p property
		_ = json.Unmarshal(properties[name], &p) // true and false are schemas, too
		f := field{Name: name, Label: name, Help: line(p.Description, 200), Kind: "area", Required: slices.Contains(s.Required, name)}
		if p.Title != "" {
			f.Label = line(p.Title, 80)
		}
		if kind, ok := p.Type.(string); ok && kinds[kind] != "" {
			f.Kind = kinds[kind]
		}
		if f.Kind == "text" && len(p.Enum) > 0 {
			f.Kind = "choice"
			for _, x := range p.Enum {
				var text string
				if json.Unmarshal(x, &text) == nil {
					f.Options = append(f.Options, text)
				}
			}
		}
		if f.Kind == "text" && p.Format == "date" {
			f.Kind = "date"
		}
		if f.Kind == "area" {
			f.Help = strings.TrimSpace("JSON. " + f.Help)
		}
		if len(p.Default) > 0 {
			f.Value = string(p.Default)
			var text string
			if json.Unmarshal(p.Default, &text) == nil && f.Kind != "area" {
				f.Value = text
			}
		}
		list = append(list, f)
	}
	return list
}

// membersOf returns the names of the members of an object in their order.
func membersOf(object json.RawMessage) (names []string) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return nil
		}
		if text, ok := name.(string); ok {
			names = append(names, text)
		}
	}
	return names
}

// inputOf builds the input from the values of the fields, and keeps these in the fields. Empty fields that are not
// required are omitted.
func inputOf(fields []field, form url.Values) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	var problem error
	for i := range fields {
		f := &fields[i]
		f.Value = form.Get("field." + f.Name)
		value, err := valueOf(f)
		if err != nil {
			f.Problem = err.Error()
			problem = say(http.StatusUnprocessableEntity, "The field %q %s", f.Name, err)
		}
		if value == nil {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(f.Name) // a string always encodes
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), problem
}

// valueOf returns the value of a field as JSON, nil if it is omitted.
func valueOf(f *field) (json.RawMessage, error) {
	text := strings.TrimSpace(f.Value)
	switch f.Kind {
	case "check":
		if text == "" && !f.Required {
			return nil, nil
		}
		return json.RawMessage(strconv.FormatBool(text == "true")), nil
	case "number", "decimal":
		if text == "" {
			return nil, nil
		}
		if !abi.IsJSON([]byte(text)) || strings.Trim(text, "-+.eE0123456789") != "" {
			return nil, fmt.Errorf("must be a number, got %.40q", text)
		}
		return json.RawMessage(text), nil
	case "area":
		if text == "" {
			return nil, nil
		}
		if !abi.IsJSON([]byte(text)) {
			return nil, fmt.Errorf("must be JSON (a text stands in quotes), got %.40q", text)
		}
		return json.RawMessage(text), nil
	}
	if f.Value == "" && !f.Required {
		return nil, nil
	}
	return json.Marshal(f.Value)
}

// Sent returns a field with the name under which it is sent: a prefix avoids conflicts with the form's other fields.
func (f field) Sent() field {
	f.Name = "field." + f.Name
	return f
}
