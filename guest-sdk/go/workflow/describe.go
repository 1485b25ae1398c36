package workflow

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// description is the module's description, as the host reads it.
type description struct {
	Workflows []described `json:"workflows"`
	Steps     []string    `json:"steps"` // step functions; without this field the host accepts any name
	Bodies    string      `json:"bodies"`
	SDK       string      `json:"sdk"`
}

type described struct {
	Name          string         `json:"name"`
	InputSchema   any            `json:"input_schema,omitempty"`
	OutputSchema  any            `json:"output_schema,omitempty"`
	Queries       []string       `json:"queries,omitempty"`
	Signals       []string       `json:"signals,omitempty"`
	SignalSchemas map[string]any `json:"signal_schemas,omitempty"`
	Updates       []string       `json:"updates,omitempty"`
	UpdateSchemas map[string]any `json:"update_schemas,omitempty"`
}

// describe returns the description of the registered workflows and step functions.
func describe() description {
	d := description{Steps: append([]string{}, registered.stepNames...), Bodies: "event", SDK: "go/1.0"}
	for _, name := range registered.names {
		d.Workflows = append(d.Workflows, describeOne(name))
	}
	return d
}

// describeOne describes a workflow. It panics if a tag of its types is invalid; the panic names the workflow.
func describeOne(name string) described {
	defer func() {
		if v := recover(); v != nil {
			panic(fmt.Sprintf("workflow %q: %v", name, v))
		}
	}()
	s := registered.schemas[name]
	w := described{Name: name, Queries: registered.queries[name], Signals: registered.signals[name], SignalSchemas: map[string]any{},
		Updates: s.updates, UpdateSchemas: map[string]any{}}
	w.InputSchema, w.OutputSchema = schemaOf(s.in, s.input, false), schemaOf(s.out, s.result, true)
	addSchemas(w.SignalSchemas, s.signals, s.signalTexts)
	addSchemas(w.UpdateSchemas, s.updateTypes, s.updateTexts)
	return w
}

// addSchemas adds the schemas of types, then the schemas in texts, which take precedence.
func addSchemas(to map[string]any, types map[string]reflect.Type, texts map[string]string) {
	for name, t := range types {
		to[name] = schemaOf(t, "", false)
	}
	for name, text := range texts {
		to[name] = schemaOf(nil, text, false)
	}
}

// schemaOf returns the schema in text, or else the schema of t. It returns nil for Bytes, for codecs other than JSON, and if
// the schema would be empty or too long.
func schemaOf(t reflect.Type, text string, output bool) any {
	switch {
	case text != "":
		if !json.Valid([]byte(text)) { // the host refuses it and says why
			return text
		}
		return json.RawMessage(text)
	case codec != (jsonCodec{}), t == reflect.TypeFor[Bytes]():
		return nil
	}
	if s := derived(t, output); len(s) > 0 {
		return s
	}
	return nil
}
