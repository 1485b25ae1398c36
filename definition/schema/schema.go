// Package schema has the JSON Schema of definitions, for editors and other programs. A text that it takes may still be
// refused: names that are not there, cycles and expressions are not its business.
package schema

import _ "embed" // definition.schema.json

// Text is the schema (draft 2020-12).
//
//go:embed definition.schema.json
var Text []byte
