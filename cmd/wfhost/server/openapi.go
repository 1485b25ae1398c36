package server

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/host"
)

// openAPIOf makes an OpenAPI document of what people do with one workflow: start it, give its runs signals, get their results.
// Its paths are of the API as it is; the schemas are the workflow's, whose dialect is that of OpenAPI 3.1.
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
				"attributes": object{"type": "object", "additionalProperties": object{"type": "string"}}}}),
			"responses": answers("201", "Durable", body(ref("Run")))}},
		"/v1/runs/{id}/result": object{"get": object{"operationId": "result", "summary": "Get a run's result", "parameters": []any{run},
			"responses": answers("200", "The result", body(ref("Result")))}},
	}
	for i, name := range slices.Sorted(maps.Keys(x.Signals)) {
		schema := "Signal" + string(rune('A'+i%26))
		for schemas[schema] != nil {
			schema += "_"
		}
		schemas[schema] = placed(x.Signals[name], schema)
		paths["/v1/runs/{id}/signals/"+url.PathEscape(name)] = object{"post": object{"operationId": "signal-" + name,
			"summary": "Give a signal to a run", "parameters": []any{run}, "requestBody": body(ref(schema)),
			"responses": answers("202", "Durable", object{})}}
	}
	return object{"openapi": "3.1.0", "info": object{"title": workflow, "version": "1"}, "paths": paths,
		"components": object{"schemas": schemas, "securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}}},
		"security":   []any{object{"token": []string{}}}}
}

// placed returns a schema as a component: references within it lead to where it is now. None is one that takes anything.
func placed(schema json.RawMessage, name string) any {
	var v any
	if len(schema) == 0 || json.Unmarshal(schema, &v) != nil {
		return true
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			for k, x := range v {
				if ref, ok := x.(string); ok && k == "$ref" && strings.HasPrefix(ref, "#") {
					v[k] = "#/components/schemas/" + name + strings.TrimPrefix(ref, "#")
				}
				walk(x)
			}
		}
	}
	walk(v)
	return v
}
