package expression

import (
	"strings"
	"testing"
)

// TestPatterns counts the instructions of constant patterns when an expression is compiled, and refuses too many.
func TestPatterns(t *testing.T) {
	names := []string{"input"}
	for text, want := range map[string]int{
		`input.name matches "^Ada$"`:                       5,
		`input.name matches ("A" + "da")`:                  3,
		`input.name matches "x{1000}"`:                     1001,
		`input.name matches ("a" + input.name)`:            0, // compiled when it is evaluated
		`input.name matches (input.name + "a")`:            0,
		`input.name matches ("a" ?? "b")`:                  0,
		`input.name matches (input.n > 1 ? "a" : "b")`:     0,
		`input.name contains "x{1000}"`:                    0,
		`input.name matches "a" && input.name matches "b"`: 2,
	} {
		e, err := Compile(text, names)
		if err != nil || e.Patterns() < want || e.Patterns() > want+want/2+1 {
			t.Errorf("%s: %+v, %v, want some %d", text, e, err, want)
		}
	}
	for text, want := range map[string]string{
		`input.name matches "x{999}{999}"`:                                  "invalid nested repetition",
		`input.name matches "("`:                                            "missing closing",
		`input.name matches "(x{999}){21}"`:                                 "invalid repeat count",
		strings.Repeat(`input.name matches "x{999}" || `, 25) + `false`:     "have more than 20000 instructions",
		`input.name matches ("` + strings.Repeat("x{999}", 25) + `" + "y")`: "have more than 20000 instructions",
	} {
		if _, err := Compile(text, names); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
}
