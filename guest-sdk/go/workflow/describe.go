package workflow

import (
	"encoding/json"
	"reflect"
)

// description is what the module says of itself.
type description struct {
	Workflows []described `json:"workflows"`
	Steps     []string    `json:"steps,omitempty"`
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
}

// describe makes the description of what was registered.
func describe() description {
	d := description{Steps: registered.stepNames, Bodies: "event", SDK: "go/1.0"}
	for _, name := range registered.names {
		w := described{Name: name, Queries: registered.queries[name], Signals: registered.signals[name],
			SignalSchemas: map[string]any{}}
		s := registered.schemas[name]
		w.InputSchema, w.OutputSchema = schemaOf(s.in, s.input, false), schemaOf(s.out, s.result, true)
		for signal, t := range s.signals {
			w.SignalSchemas[signal] = schemaOf(t, "", false)
		}
		for signal, text := range s.signalTexts {
			w.SignalSchemas[signal] = schemaOf(nil, text, false)
		}
		d.Workflows = append(d.Workflows, w)
	}
	return d
}

// schemaOf returns the schema that is given as text, else that of a type. Another codec than JSON has none.
func schemaOf(t reflect.Type, text string, output bool) any {
	switch {
	case text != "":
		if !json.Valid([]byte(text)) { // the host says what is wrong with it
			return text
		}
		return json.RawMessage(text)
	case codec != (jsonCodec{}):
		return nil
	}
	if s := derived(t, output); len(s) > 0 {
		return s
	}
	return nil
}
