package abi

import (
	"encoding/json"
	"unicode/utf8"
)

// MaxJSONDepth bounds how deeply arrays and objects are nested in what must be JSON. Payloads are shown within other JSON, and
// decoders end at a depth of 10,000.
const MaxJSONDepth = 9000

// CheckJSON says whether b is one JSON value in UTF-8, at most MaxJSONDepth deep. what names it in the error, an *Error of code
// InvalidArgument.
func CheckJSON(what string, b []byte) error {
	switch {
	case len(b) == 0:
		return Errorf(InvalidArgument, "%s must be JSON, got nothing", what)
	case !utf8.Valid(b):
		return Errorf(InvalidArgument, "%s must be JSON in UTF-8, got %.80q", what, b)
	case jsonDepth(b) > MaxJSONDepth:
		return Errorf(InvalidArgument, "%s must be JSON nested at most %d deep, got %.20q…", what, MaxJSONDepth, b)
	case !json.Valid(b):
		return Errorf(InvalidArgument, "%s must be JSON, got %.80q", what, b)
	}
	return nil
}

// IsJSON reports whether b is JSON as CheckJSON says.
func IsJSON(b []byte) bool {
	return len(b) > 0 && utf8.Valid(b) && jsonDepth(b) <= MaxJSONDepth && json.Valid(b)
}

// jsonDepth returns how deeply arrays and objects are nested in a JSON text; of others, some number.
func jsonDepth(b []byte) int {
	depth, most, text := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '[' || c == '{':
			depth++
			most = max(most, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return most
}
