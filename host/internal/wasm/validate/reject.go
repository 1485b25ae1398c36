package validate

import "fmt"

// RejectError reports why a module was refused: the broken rule, the limit and the actual number if the rule is about
// a number, and the offset at which the scanner noticed.
type RejectError struct {
	Rule       string
	Limit, Got int64 // both zero if the rule is not about a number
	Offset     int64
	Detail     string
}

// Error returns the whole sentence.
func (e *RejectError) Error() string {
	text := "module rejected: " + e.Rule
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Limit != 0 || e.Got != 0 {
		text += fmt.Sprintf(" (limit %d, got %d)", e.Limit, e.Got)
	}
	return text + fmt.Sprintf(" at byte %d", e.Offset)
}

// over returns the error for a number over its limit.
func (r *reader) over(rule string, limit, got int64) error {
	return &RejectError{Rule: rule, Limit: limit, Got: got, Offset: int64(r.at)}
}

// bad returns the error for a malformed or unsupported element.
func (r *reader) bad(rule, format string, args ...any) error {
	return &RejectError{Rule: rule, Detail: fmt.Sprintf(format, args...), Offset: int64(r.at)}
}
