package workflow

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// description is what the module says of itself.
type description struct {
	Workflows []described `json:"workflows"`
	Steps     []string    `json:"steps"` // of a module without this field, each name may be one
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

// describe makes the description of what was registered.
func describe() description {
	d := description{Steps: append([]string{}, registered.stepNames...), Bodies: "event", SDK: "go/1.0"}
	for _, name := range registered.names {
		d.Workflows = append(d.Workflows, describeOne(name))
	}
	return d
}

// describeOne describes a workflow. What is wrong with the tags of its types names the workflow.
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

// addSchemas adds the schemas of types, or in place of these, of texts.
func addSchemas(to map[string]any, types map[string]reflect.Type, texts map[string]string) {
	for name, t := range types {
		to[name] = schemaOf(t, "", false)
	}
	for name, text := range texts {
		to[name] = schemaOf(nil, text, false)
	}
}

// schemaOf returns the schema that is given as text, else that of a type. Bytes have none, and no codec but
// JSON has any.
func schemaOf(t reflect.Type, text string, output bool) any {
	switch {
	case text != "":
		if !json.Valid([]byte(text)) { // the host says what is wrong with it
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
