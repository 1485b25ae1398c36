package store

import (
	"slices"
	"strconv"
	"time"
)

// ValueType is the type of an attribute's value. The text of the value determines it.
type ValueType uint8

// The types of values. Integers and times have an order.
const (
	TypeText ValueType = iota // neither of the others: compared for equality only
	TypeInt                   // a decimal integer of 64 bits, without a plus sign or leading zeros
	TypeTime                  // an instant by RFC 3339, in any zone; compared to the millisecond
)

// ValueOf returns the type of a value and its rank in the order of that type: the integer, or the Unix milliseconds.
func ValueOf(text string) (int64, ValueType) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
		return n, TypeInt
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UnixMilli(), TypeTime
	}
	return 0, TypeText
}

// Range selects the runs that have the attribute, with a value of the type within the bounds.
type Range struct {
	Key      string
	Type     ValueType
	From, To int64 // both inclusive
}

// Matches reports whether one of a run's attributes is within the range.
func (r *Range) Matches(list []Attribute) bool {
	return slices.ContainsFunc(list, func(a Attribute) bool {
		if a.Key != r.Key {
			return false
		}
		v, of := ValueOf(a.Value)
		return of == r.Type && v >= r.From && v <= r.To
	})
}
