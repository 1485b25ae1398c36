// Package schema checks JSON against JSON Schema, draft 2020-12, within limits: schemas come from users who upload
// modules, and values from users who start runs.
//
// The package is pure: it starts no goroutine and reads no clock, file or network. Formats are asserted; references
// lead only within the schema.
package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// MaxBytes bounds the text of a schema. Schemas written by hand have some hundred bytes, generated ones some thousand.
	MaxBytes = 64 << 10
	// MaxEnum bounds the values of all enums of a schema together: each of them is compared with each value of an input.
	MaxEnum = 1000
	// MaxPattern bounds the bytes of a pattern.
	MaxPattern = 1000
	// MaxProgram bounds the instructions of all patterns of a schema together. x{1000} has a thousand, of forty bytes each.
	MaxProgram = 20_000
	// MaxValues bounds the values in an input, objects and arrays included: each may be a fault of its own, which takes
	// some hundred bytes until all are known.
	MaxValues = 100_000
	// MaxDigits bounds the length of a number: numbers are compared as fractions, in time that grows with the square of it.
	MaxDigits = 400
	// maxExponent bounds the exponents of numbers for the same reason. The exponents of float64 end at 308.
	maxExponent = 400
	// maxWork bounds how often parts of a schema may be applied to a value, or compared with one. Nested branches multiply.
	maxWork = 1_000_000
	// depthOfWork is the depth of a value that makes each application count once more: a fault keeps the names of its path.
	depthOfWork = 16
	// workOfMatch is the product of text bytes and pattern instructions that counts as one more. Each takes some nanoseconds.
	workOfMatch = 256
	// MaxFaults is how many faults of a value are reported.
	MaxFaults = 20
)

// Schema is a compiled schema. It may be used concurrently.
type Schema struct {
	turn     chan struct{} // held while the library checks a value; guards meter, which counts that work
	meter    *Meter
	compiled *jsonschema.Schema
	plain    *Plain
	patterns map[string]*pattern
	programs int   // instructions of all patterns
	bytes    int64 // estimated memory
	size     int   // number of schemas that it consists of

	unevaluated bool // a part has unevaluatedItems or unevaluatedProperties
}

// Fault is one fault of a value.
type Fault struct {
	Pointer string `json:"pointer"` // into the value, by RFC 6901; "" is the whole value
	Message string `json:"message"`
}

// Error describes the faults of a value.
type Error struct {
	Faults []Fault // at least one, at most MaxFaults, by pointer
	More   int     // number of further faults
}

// Error returns the faults in one sentence.
func (e *Error) Error() string {
	var b strings.Builder
	for i, f := range e.Faults {
		if i > 0 {
			b.WriteString("; ")
		}
		if f.Pointer != "" {
			fmt.Fprintf(&b, "%s: ", f.Pointer)
		}
		b.WriteString(f.Message)
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "; and %d more", e.More)
	}
	return b.String()
}

func fault(pointer, format string, args ...any) *Error {
	return &Error{Faults: []Fault{{pointer, fmt.Sprintf(format, args...)}}}
}

// location is the name of the schema in the library. Nothing is loaded from there.
const location = "https://schema.invalid/schema.json"

// draft is the only supported dialect.
const draft = "https://json-schema.org/draft/2020-12/schema"

// noLoader refuses references that lead out of the schema.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%q is outside of the schema", url)
}

// Compile compiles the text of a schema. An error is one sentence.
func Compile(text []byte) (s *Schema, err error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("the schema has %d bytes, the limit is %d", len(text), MaxBytes)
	}
	_, fail := counted(text)
	var doc any
	if fail == nil {
		doc, fail = decode(text)
	}
	if fail != nil {
		return nil, fmt.Errorf("the schema cannot be read: %w", fail)
	}
	d, err := readDocument(doc)
	if err != nil {
		return nil, err
	}
	s = &Schema{turn: make(chan struct{}, 1), patterns: map[string]*pattern{}, size: len(d.parts),
		meter: NewMeter(context.Background(), math.MaxInt)} // the library checks the schema itself with patterns
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(s.pattern)
	if err := c.AddResource(location, doc); err != nil {
		return nil, refused(err)
	}
	s.compiled, err = c.Compile(location)
	if err != nil {
		return nil, refused(err)
	}
	circles := &chains{lengths: map[*jsonschema.Schema]int{}, seen: map[*jsonschema.Schema]bool{}}
	if err := circles.walk(s.compiled); err != nil {
		return nil, err
	}
	s.plain, s.unevaluated = Of(s.compiled), circles.unevaluated
	s.count(s.compiled, map[*jsonschema.Schema]bool{})
	s.bytes = int64(textTimes*len(text) + partBytes*len(d.parts) + pointerTimes*d.pointers + instructionBytes*s.programs +
		valueBytes*d.enums)
	return s, nil
}

// Upper bounds of the memory of a compiled schema, in bytes, as measured (TestCompiledBytes): for each byte of its
// text, for each schema in it, for each byte of the pointers of these, for each instruction of its patterns, and for
// each value of an enum.
const textTimes, partBytes, pointerTimes, instructionBytes, valueBytes = 20, 3 << 10, 3, 300, 200

// refused turns an error of the library about a schema into one line.
func refused(err error) error {
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if v, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			return fmt.Errorf("the schema is none: %w", faults(v))
		}
	}
	return fmt.Errorf("the schema is none: %s", strings.ReplaceAll(strings.ReplaceAll(err.Error(), "\n", " "), location, ""))
}

// Check returns the faults of a value, and nil if it fits. An empty text means that there is no value: it fits if the schema has
// a default, or if {} or null would fit. If ctx ends, Check returns an Error that says so; callers check ctx first.
func (s *Schema) Check(ctx context.Context, text []byte) *Error {
	if len(text) == 0 {
		if s.compiled.Default != nil || s.check(ctx, map[string]any{}, 1) == nil || s.check(ctx, nil, 1) == nil {
			return nil
		}
		return fault("", "there is none, and one is required")
	}
	depth, fail := counted(text)
	if fail != nil {
		if s.plain.FitsAsRead(ctx, bytes.NewReader(text)) { // too large for the library
			return nil
		}
		return fail
	}
	v, fail := decode(text)
	if fail != nil {
		return fail
	}
	return s.check(ctx, v, depth)
}

func (s *Schema) check(ctx context.Context, v any, depth int) (fail *Error) {
	if s.plain.Fits(v) {
		return nil
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return fault("", "the check was stopped")
	}
	defer func() { <-s.turn }()
	defer func() {
		switch r := recover(); r {
		case nil:
		case overworked:
			fail = fault("", "the schema takes more than %d comparisons for it", maxWork)
		case stopped:
			fail = fault("", "the check was stopped")
		default:
			panic(r)
		}
	}()
	s.meter = NewMeter(ctx, maxWork/(1+depth/depthOfWork))
	if err := s.compiled.Validate(v); err != nil {
		if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
			return faults(invalid)
		}
		return fault("", "%v", err)
	}
	return nil
}

// decode decodes a single JSON value. The caller has checked the limits with counted.
func decode(text []byte) (v any, fail *Error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, fault("", "it is not JSON: there is nothing but white space")
	}
	if err := d.Decode(&v); err != nil {
		return nil, fault("", "it is not JSON: %v", err)
	}
	if _, err := d.Token(); err == nil || d.InputOffset() < int64(len(bytes.TrimRight(text, " \t\r\n"))) {
		return nil, fault("", "something follows the JSON value")
	}
	return v, nil
}

// counted returns how deep a JSON text is nested, and an error if it exceeds a limit. It does not check that the text is JSON.
func counted(text []byte) (deepest int, fail *Error) {
	values, depth := 1, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case c == ',':
			values++
		case c == '{' || c == '[':
			values++
			depth++
			if depth > MaxDepth {
				return 0, fault("", "it is nested more than %d deep", MaxDepth)
			}
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		case c == '-' || c >= '0' && c <= '9':
			start := i
			for i+1 < len(text) && strings.IndexByte("0123456789.eE+-", text[i+1]) >= 0 {
				i++
			}
			if fail := number(string(text[start : i+1])); fail != nil {
				return 0, fail
			}
		}
		if values > MaxValues {
			return 0, fault("", "it has more than %d values", MaxValues)
		}
	}
	return deepest, nil
}

func number(text string) *Error {
	if len(text) > MaxDigits {
		return fault("", "a number has %d characters, the limit is %d", len(text), MaxDigits)
	}
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		exponent := 0
		for _, c := range strings.TrimLeft(text[at+1:], "+-") {
			exponent = exponent*10 + int(c-'0')
			if exponent > maxExponent {
				return fault("", "the number %s has an exponent over %d", text, maxExponent)
			}
		}
	}
	return nil
}
