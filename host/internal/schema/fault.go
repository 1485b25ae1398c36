package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// A fault is shortened before it is written: a value may have a hundred thousand faults, each at a long name.
const (
	maxWords   = 300  // bytes of a sentence, or of a value in one
	maxName    = 200  // bytes of a name in a pointer
	maxPointer = 1000 // bytes of a pointer
	maxNumber  = 40   // digits of a number
)

// mismatch is the error of a part's own checks: a sentence in words, or the values that are allowed.
type mismatch struct {
	words string
	want  []any
}

// Error implements error. Users see the result of words instead.
func (m *mismatch) Error() string { return m.say() }

func (m *mismatch) say() string {
	if m.words != "" {
		return m.words
	}
	b := []byte("must be ")
	if len(m.want) > 1 {
		b = append(b, "one of "...)
	}
	for i, v := range m.want {
		if i > 0 {
			b = append(b, ", "...)
		}
		if len(b) > maxWords {
			return string(append(b, "…"...))
		}
		text, _ := json.Marshal(v)
		b = append(b, cut(string(text), maxWords)...)
	}
	return string(b)
}

// told collects the first faults of a value, in the order of their pointers.
type told struct {
	limit  int
	faults []Fault
	n      int // number of all faults
	buf    []byte
}

// add adds a fault. It calls words only if the fault is among the first.
func (t *told) add(path []string, name string, named bool, words func() string) {
	t.n++
	t.buf = appendPointer(t.buf[:0], path)
	if named {
		t.buf = appendPointer(t.buf, []string{name})
	}
	if len(t.faults) == t.limit && string(t.buf) > t.faults[t.limit-1].Pointer {
		return
	}
	f := Fault{string(t.buf), words()}
	at, known := slices.BinarySearchFunc(t.faults, f, func(a, b Fault) int {
		if c := strings.Compare(a.Pointer, b.Pointer); c != 0 {
			return c
		}
		return strings.Compare(a.Message, b.Message)
	})
	if known {
		t.n--
		return
	}
	t.faults = slices.Insert(t.faults, at, f)
	t.faults = t.faults[:min(len(t.faults), t.limit)]
}

// faults returns the faults at the leaves of the library's tree of errors. For branches of which none fits, see words.
func faults(v *jsonschema.ValidationError) *Error {
	t := &told{limit: MaxFaults}
	t.collect(v)
	return &Error{Faults: t.faults, More: t.n - len(t.faults)}
}

func (t *told) collect(v *jsonschema.ValidationError) {
	path := v.InstanceLocation
	names := func(of []string, words string) {
		for _, name := range of {
			t.add(path, name, true, func() string { return words })
		}
	}
	switch k := v.ErrorKind.(type) {
	case *kind.Required:
		names(k.Missing, "is missing")
	case *kind.AdditionalProperties:
		names(k.Properties, "is not known here")
	case *kind.DependentRequired:
		names(k.Missing, fmt.Sprintf("is missing, as %q is there", cut(k.Prop, maxName)))
	case *kind.Dependency:
		names(k.Missing, fmt.Sprintf("is missing, as %q is there", cut(k.Prop, maxName)))
	case *kind.PropertyNames:
		t.add(path, k.Property, true, func() string { return "its name: " + first(v.Causes) })
	case *kind.OneOf, *kind.AnyOf, *kind.Contains, *kind.MinContains:
		t.add(path, "", false, func() string { return cut(words(v), maxWords) })
	default:
		if len(v.Causes) == 0 {
			t.add(path, "", false, func() string { return cut(words(v), maxWords) })
		}
		for _, c := range v.Causes {
			t.collect(c)
		}
	}
}

// words returns the message for an error of the library.
func words(v *jsonschema.ValidationError) string {
	switch k := v.ErrorKind.(type) {
	case *kind.Type:
		want := k.Want
		if slices.Contains(want, "integer") { // part.take adds number, so that apply sees all numbers
			want = slices.DeleteFunc(slices.Clone(want), func(t string) bool { return t == "number" })
		}
		return fmt.Sprintf("must be %s, got %s", strings.Join(want, " or "), k.Got)
	case *kind.FalseSchema:
		return "must not be there"
	case *kind.Not:
		return "must not be like this"
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return fmt.Sprintf("fits more than one of what it may be: %d and %d, counted from 0", k.Subschemas[0], k.Subschemas[1])
		}
		return "fits none of what it may be: " + branches(v)
	case *kind.AnyOf:
		return "fits none of what it may be: " + branches(v)
	case *kind.Format:
		if m, ok := k.Err.(*mismatch); ok { //nolint:errorlint // the library returns it as it is
			return m.say()
		}
		got, _ := k.Got.(string)
		return fmt.Sprintf("%q is not valid %s: %v", cut(got, maxName), k.Want, k.Err)
	case *kind.Pattern:
		return fmt.Sprintf("%q does not match the pattern %q", cut(k.Got, maxName), k.Want)
	case *kind.Enum: // of the schema of schemas
		return (&mismatch{want: k.Want}).say()
	case *kind.Const:
		return (&mismatch{want: []any{k.Want}}).say()
	case *kind.Contains:
		return "has no item that fits to what it must contain"
	case *kind.MinContains:
		return fmt.Sprintf("has %d items that fit to what it must contain, want at least %d", len(k.Got), k.Want)
	case *kind.MaxContains:
		return fmt.Sprintf("has %d items that fit to what it must contain, want at most %d", len(k.Got), k.Want)
	}
	return bounds(v.ErrorKind)
}

// bounds returns the message for a bound that a value violates.
func bounds(k jsonschema.ErrorKind) string {
	var got, want any
	switch k := k.(type) {
	case *kind.MinProperties:
		got, want = k.Got, k.Want
	case *kind.MaxProperties:
		got, want = k.Got, k.Want
	case *kind.MinItems:
		got, want = k.Got, k.Want
	case *kind.MaxItems:
		got, want = k.Got, k.Want
	case *kind.MinLength:
		got, want = k.Got, k.Want
	case *kind.MaxLength:
		got, want = k.Got, k.Want
	case *kind.Minimum:
		got, want = written(k.Got), written(k.Want)
	case *kind.Maximum:
		got, want = written(k.Got), written(k.Want)
	case *kind.ExclusiveMinimum:
		got, want = written(k.Got), written(k.Want)
	case *kind.ExclusiveMaximum:
		got, want = written(k.Got), written(k.Want)
	case *kind.MultipleOf:
		got, want = written(k.Got), written(k.Want)
	}
	keyword := strings.Join(k.KeywordPath(), "/")
	if got == nil {
		return keyword + " does not fit"
	}
	return fmt.Sprintf("%s: got %v, want %v", keyword, got, want)
}

// written returns a number with all its digits, or with the first maxNumber if it has more.
func written(r *big.Rat) string {
	digits, _ := r.FloatPrec() // exact, since the number was a decimal
	if text := r.FloatString(digits); len(text) <= maxNumber {
		return text
	}
	return new(big.Float).SetPrec(200).SetRat(r).Text('g', maxNumber)
}

// branches says why no branch fits: the first fault of each of the first three branches.
func branches(v *jsonschema.ValidationError) string {
	var why []string
	at := string(appendPointer(nil, v.InstanceLocation))
	for _, c := range v.Causes {
		if len(why) == 3 {
			return strings.Join(append(why, "…"), "; or ")
		}
		of := &told{limit: 1}
		of.collect(c)
		for _, f := range of.faults {
			why = append(why, strings.TrimSpace(strings.TrimPrefix(f.Pointer, at)+" "+f.Message))
		}
	}
	return strings.Join(why, "; or ")
}

// first returns the message of the first fault.
func first(causes []*jsonschema.ValidationError) string {
	of := &told{limit: 1}
	for _, c := range causes {
		of.collect(c)
	}
	for _, f := range of.faults {
		return f.Message
	}
	return "does not fit"
}

var escape = strings.NewReplacer("~", "~0", "/", "~1")

// appendPointer appends a JSON pointer. It cuts long names and paths.
func appendPointer(b []byte, path []string) []byte {
	for _, p := range path {
		if len(b) > maxPointer {
			return append(b, "/…"...)
		}
		b = append(append(b, '/'), escape.Replace(cut(p, maxName))...)
	}
	return b
}

// cut returns the first bytes of a long text, and an ellipsis.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
