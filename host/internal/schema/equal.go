package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The library compares a value with each value of an enum, and numbers as fractions. This file gives each value a
// canonical text, however its numbers and objects are written: two values are equal if and only if their texts are.

// values are the values that an enum or const allows.
type values struct {
	texts   map[string]bool
	longest int
	want    []any
}

func valuesOf(want []any) *values {
	of := &values{texts: make(map[string]bool, len(want)), want: want}
	for _, v := range want {
		text, _ := canonical(nil, v, math.MaxInt)
		of.texts[string(text)] = true
		of.longest = max(of.longest, len(text))
	}
	return of
}

// has reports whether v is an allowed value, and how many bytes of text it had to make.
func (of *values) has(v any) (ok bool, bytes int) {
	text, whole := canonical(nil, v, of.longest)
	return whole && of.texts[string(text)], len(text)
}

// canonical appends the canonical text of a value. It stops, and returns false, after more than limit bytes.
func canonical(b []byte, v any, limit int) ([]byte, bool) {
	switch v := v.(type) {
	case string:
		if len(v) > limit-len(b) {
			return b, false
		}
		b = append(strconv.AppendInt(append(b, '"'), int64(len(v)), 10), ':')
		b = append(b, v...)
	case json.Number:
		digits, exponent := decimal(string(v))
		b = append(strconv.AppendInt(append(append(b, '#'), digits...), int64(exponent), 10), ';')
	case []any:
		b = append(b, '[')
		for _, x := range v {
			var ok bool
			b, ok = canonical(b, x, limit)
			if !ok {
				return b, false
			}
		}
		b = append(b, ']')
	case map[string]any:
		if len(v) > limit-len(b) { // each member takes more than a byte
			return b, false
		}
		b = append(b, '{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			var ok bool
			b, ok = canonical(b, name, limit)
			if !ok {
				return b, false
			}
			b, ok = canonical(b, v[name], limit)
			if !ok {
				return b, false
			}
		}
		b = append(b, '}')
	default:
		b = fmt.Append(b, v) // true, false, <nil>
	}
	return b, len(b) <= limit
}

// decimal returns a JSON number as digits times ten to the exponent. The digits have neither leading nor trailing zeros.
func decimal(text string) (digits string, exponent int) {
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		exponent, _ = strconv.Atoi(text[at+1:]) // at most maxExponent
		text = text[:at]
	}
	unsigned, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ := strings.Cut(unsigned, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	if digits == "" {
		return "0", 0
	}
	short := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(short)
	if negative {
		short = "-" + short
	}
	return short + "e", exponent
}

// isInteger reports whether a JSON number is an integer.
func isInteger(text string) bool {
	_, exponent := decimal(text)
	return exponent >= 0
}

// twins returns the indices of two equal items, and false if there are none. It calls work with the bytes of text that
// it makes for each item.
func twins(list []any, work func(bytes int)) (i, j int, found bool) {
	seen := make(map[string]int, len(list))
	for j, v := range list {
		text, _ := canonical(nil, v, math.MaxInt)
		work(len(text))
		if i, found := seen[string(text)]; found {
			return i, j, true
		}
		seen[string(text)] = j
	}
	return 0, 0, false
}
