package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/host"
)

// openAPIOf returns an OpenAPI document for the use of one workflow: starts, signals, results. Its paths are those of
// the API; the schemas are the workflow's, in the dialect of OpenAPI 3.1.
func openAPIOf(workflow string, x host.Schemas) any {
	type object = map[string]any
	body := func(schema any) object {
		return object{"content": object{"application/json": object{"schema": schema}}}
	}
	schemas := object{
		"Input": placed(x.Input, "Input"), "Result": placed(x.Result, "Result"),
		"Problem": object{"type": "object", "required": []string{"status", "code", "detail"}, "properties": object{
			"status": object{"type": "integer"}, "code": object{"type": "string"}, "detail": object{"type": "string"},
			"faults": object{"type": "array", "items": object{"type": "object", "properties": object{
				"pointer": object{"type": "string"}, "message": object{"type": "string"}}}}}},
		"Run": object{"type": "object", "required": []string{"id"}, "properties": object{"id": object{"type": "string"},
			"status": object{"type": "string"}, "workflow": object{"type": "string"}, "version": object{"type": "integer"}}},
	}
	ref := func(name string) object { return object{"$ref": "#/components/schemas/" + name} }
	answers := func(status, description string, of object) object {
		good := object{"description": description}
		maps.Copy(good, of)
		bad := object{"description": "Refused, or failed"}
		maps.Copy(bad, object{"content": object{"application/problem+json": object{"schema": ref("Problem")}}})
		return object{status: good, "default": bad}
	}
	run := object{"name": "id", "in": "path", "required": true, "schema": object{"type": "string"}}
	paths := object{
		"/v1/workflows/" + url.PathEscape(workflow) + "/runs": object{"post": object{"operationId": "start",
			"summary": "Start a run", "requestBody": body(object{"type": "object", "properties": object{
				"id": object{"type": "string"}, "input": ref("Input"), "at": object{"type": "string", "format": "date-time"},
				"in": object{"type": "string"}, "timeout": object{"type": "string"},
				"attributes": object{"type": "object", "additionalProperties": object{"type": "string"}}, "memo": true}}),
			"responses": answers("201", "Durable", body(ref("Run")))}},
		"/v1/runs/{id}/result": object{"get": object{"operationId": "result", "summary": "Get a run's result", "parameters": []any{run},
			"responses": answers("200", "The result", body(ref("Result")))}},
	}
	for _, k := range []struct {
		kind, title, summary string
		schemas              map[string]json.RawMessage
		answers              object
	}{
		{"signal", "Signal", "Send a signal to a run", x.Signals, answers("202", "Durable", object{})},
		{"update", "Update", "Ask a run to do something", x.Updates, answers("200", "The answer", body(true))},
	} {
		for i, name := range slices.Sorted(maps.Keys(k.schemas)) {
			schema := k.title + string(rune('A'+i%26))
			for schemas[schema] != nil {
				schema += "_"
			}
			schemas[schema] = placed(k.schemas[name], schema)
			paths["/v1/runs/{id}/"+k.kind+"s/"+url.PathEscape(name)] = object{"post": object{"operationId": k.kind + "-" + name,
				"summary": k.summary, "parameters": []any{run}, "requestBody": body(ref(schema)), "responses": k.answers}}
		}
	}
	return object{"openapi": "3.1.0", "info": object{"title": workflow, "version": "1"}, "paths": paths,
		"components": object{"schemas": schemas, "securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}}},
		"security":   []any{object{"token": []string{}}}}
}

// placed returns a schema as a component. References within it are rewritten to its new place. Anchors, which would
// become anchors of the whole document, are replaced by their places. A missing schema becomes one that accepts
// everything.
func placed(schema json.RawMessage, name string) any {
	var v any
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber() // keep numbers as they are written
	if len(schema) == 0 || d.Decode(&v) != nil {
		return true
	}
	if top, ok := v.(map[string]any); ok {
		delete(top, "$id") // references would be relative to it
	}
	anchors := map[string]string{}
	eachSchema(v, "", func(of map[string]any, at string) {
		if anchor, ok := of["$anchor"].(string); ok {
			anchors["#"+anchor] = "#" + at
			delete(of, "$anchor")
		}
		delete(of, "$schema")
	})
	eachSchema(v, "", func(of map[string]any, _ string) {
		ref, ok := of["$ref"].(string)
		if !ok {
			return
		}
		if at, named := anchors[ref]; named {
			ref = at
		}
		of["$ref"] = "#/components/schemas/" + name + strings.TrimPrefix(ref, "#")
	})
	return v
}

// The keywords of schemas that hold schemas. const, enum, default and examples hold values. (The host accepts no
// others.)
var (
	schemaIn = []string{"additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then",
		"unevaluatedItems", "unevaluatedProperties"}
	schemasIn = []string{"$defs", "allOf", "anyOf", "definitions", "dependencies", "dependentSchemas", "oneOf", "patternProperties",
		"prefixItems", "properties"}
)

// eachSchema calls f for a schema and all schemas in it, with their JSON pointers, escaped for URLs.
func eachSchema(v any, at string, f func(of map[string]any, at string)) {
	of, ok := v.(map[string]any)
	if !ok {
		return
	}
	f(of, at)
	for _, k := range schemaIn {
		eachSchema(of[k], at+"/"+k, f)
	}
	for _, k := range schemasIn {
		switch all := of[k].(type) {
		case []any:
			for i, x := range all {
				eachSchema(x, fmt.Sprint(at, "/", k, "/", i), f)
			}
		case map[string]any:
			for name, x := range all {
				eachSchema(x, at+"/"+k+"/"+url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name)), f)
			}
		}
	}
}
