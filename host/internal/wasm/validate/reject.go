package validate

import "fmt"

// RejectError says why a module was refused: the rule that it breaks, what the limit is and what was got where
// the rule is about a number, and the byte at which the scanner noticed.
type RejectError struct {
	Rule       string
	Limit, Got int64 // both zero where the rule is not about a number
	Offset     int64
	Detail     string
}

// Error is the whole sentence.
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

// over says that a number is over its limit.
func (r *reader) over(rule string, limit, got int64) error {
	return &RejectError{Rule: rule, Limit: limit, Got: got, Offset: int64(r.at)}
}

// bad says that something is not as it should be.
func (r *reader) bad(rule, format string, args ...any) error {
	return &RejectError{Rule: rule, Detail: fmt.Sprintf(format, args...), Offset: int64(r.at)}
}
