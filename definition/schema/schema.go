// Package schema has the JSON Schema of definitions, for editors and other programs. It does not cover unknown names, cycles
// and expressions, so a text that matches the schema may still be refused.
package schema

import _ "embed" // definition.schema.json

// Text is the schema (draft 2020-12).
//
//go:embed definition.schema.json
var Text []byte
