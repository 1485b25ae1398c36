package workflow

import (
	"encoding/json"
	"strconv"
)

// jsonCodec encodes as package json does. Most inputs and results of steps are numbers, booleans and plain text, and those
// of workflows are structs of them. For these, jsonCodec has code of its own (json_plan.go), which makes a replay much
// faster and has the same results.
type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case int:
		return strconv.AppendInt(nil, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(nil, v, 10), nil
	case bool:
		return strconv.AppendBool(nil, v), nil
	case string:
		if plain(v) {
			b := make([]byte, 0, len(v)+2)
			return append(append(append(b, '"'), v...), '"'), nil
		}
	default:
		if b, ok := marshalPlanned(v); ok {
			return b, nil
		}
	}
	return json.Marshal(v)
}

func (jsonCodec) Unmarshal(b []byte, v any) error {
	switch p := v.(type) {
	case *int:
		if n, ok := integer(b); ok {
			*p = n
			return nil
		}
	case *int64:
		if n, ok := integer(b); ok {
			*p = int64(n)
			return nil
		}
	case *bool:
		if text := string(b); text == "true" || text == "false" {
			*p = text == "true"
			return nil
		}
	case *string:
		if n := len(b); n >= 2 && b[0] == '"' && b[n-1] == '"' {
			if text := string(b[1 : n-1]); plain(text) {
				*p = text
				return nil
			}
		}
	default:
		if unmarshalPlanned(b, v) {
			return nil
		}
	}
	return json.Unmarshal(b, v)
}

// plain reports whether JSON needs no escapes for text.
func plain(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c >= 0x7f, c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// maxDigits is the number of digits that fit into any int, also one of 32 bits.
const maxDigits = 9

// integer parses an integer of at most maxDigits digits.
func integer(b []byte) (n int, ok bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > maxDigits || b[0] == '0' && len(b) > 1 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}
