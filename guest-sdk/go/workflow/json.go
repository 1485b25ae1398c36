package workflow

import (
	"encoding/json"
	"strconv"
)

// jsonCodec is JSON. Numbers, truth values and plain text are what most steps take and give, and structs of them what most
// workflows do; a replay reads them much faster by hand than package json does, with the same outcome (json_plan.go).
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

// plain reports whether text is the same in JSON, between quotes.
func plain(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c >= 0x7f, c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// maxDigits is how many of them every int takes, those of 32 bits included.
const maxDigits = 9

// integer reads a whole number of few digits.
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
