package abi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// errUnknownField is what the function given to parseObject answers for a field that it does not know.
var errUnknownField = errors.New("is not known")

// parseObject reads one JSON object and hands each field's name and value to set. It is stricter than
// encoding/json is with structs: names are compared exactly, a field may appear once, null is no value, and
// nothing may follow. Zero length is the empty object. what begins the errors, which are an *Error of code
// InvalidArgument, such as "step option".
func parseObject(what string, text []byte, set func(field string, value []byte) error) error {
	switch {
	case len(text) == 0:
		return nil
	case len(text) > MaxOptionBytes:
		return Errorf(InvalidArgument, "%ss have %d bytes, the limit is %d", what, len(text), MaxOptionBytes)
	case !utf8.Valid(text):
		return Errorf(InvalidArgument, "%ss must be UTF-8", what)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return Errorf(InvalidArgument, "%ss must be a JSON object, got %s", what, quoted(string(text)))
	}
	seen := map[string]bool{}
	for d.More() {
		field, value, err := member(d)
		if err != nil {
			return syntaxError(what, err)
		}
		if seen[field] {
			return Errorf(InvalidArgument, "%s %s is given twice", what, quoted(field))
		}
		seen[field] = true
		if err := set(field, value); err != nil {
			return Errorf(InvalidArgument, "%s %s %v", what, quoted(field), err)
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return syntaxError(what, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Errorf(InvalidArgument, "%ss must be one JSON object, something follows it", what)
	}
	return nil
}

func member(d *json.Decoder) (field string, value json.RawMessage, err error) {
	token, err := d.Token()
	if err != nil {
		return "", nil, err
	}
	field, _ = token.(string) // the decoder takes nothing else for a name
	return field, value, d.Decode(&value)
}

func syntaxError(what string, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return Errorf(InvalidArgument, "%ss must be a JSON object: %v", what, err)
}

// decode reads a value of the type of to. want says in the error what it should be.
func decode[T any](value []byte, to *T, want string) error {
	var v *T // stays nil for null
	if err := json.Unmarshal(value, &v); err != nil || v == nil {
		return mustBe(want, value)
	}
	*to = *v
	return nil
}

// decodeIn is decode for a number between two bounds, both included.
func decodeIn[T cmp.Ordered](value []byte, to *T, low, high T, want string) error {
	var v T
	if err := decode(value, &v, want); err != nil {
		return err
	}
	if v < low || v > high {
		return mustBe(want, value)
	}
	*to = v
	return nil
}

// decodeWord is decode for one of a few words.
func decodeWord(value []byte, to *string, words ...string) error {
	want := strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
	var v string
	if err := decode(value, &v, want); err != nil {
		return err
	}
	if !slices.Contains(words, v) {
		return mustBe(want, value)
	}
	*to = v
	return nil
}

// decodeDuration is decode for duration text of at least low and at most high milliseconds.
func decodeDuration(value []byte, toMs *int64, low, high int64) error {
	return decodeText(value, toMs, low, high, ParseDuration)
}

func decodeText(value []byte, toMs *int64, low, high int64, parse func(string) (int64, error)) error {
	var text string
	if err := decode(value, &text, `duration text such as "30s"`); err != nil {
		return err
	}
	ms, err := parse(text)
	if refused, ok := errors.AsType[*Error](err); ok {
		return errors.New("is an " + refused.Message)
	}
	if ms < low || ms > high {
		return fmt.Errorf("must be between %s and %s, got %s", FormatDuration(low), FormatDuration(high), quoted(text))
	}
	*toMs = ms
	return nil
}

// decodeOptionalTimeout is decode for a limit on time, as ParseTimeout reads it; "" means none, which is 0.
func decodeOptionalTimeout(value []byte, toMs *int64) error {
	if string(value) == `""` {
		*toMs = 0
		return nil
	}
	return decodeText(value, toMs, 0, MaxUnixMs, ParseTimeout)
}

func mustBe(want string, value []byte) error {
	got := string(value)
	switch {
	case value[0] == '"':
		var text string
		if json.Unmarshal(value, &text) == nil { // the decoder has accepted it before
			got = quoted(text)
		}
	case value[0] == '{':
		got = "an object"
	case value[0] == '[':
		got = "an array"
	case len(got) > maxQuotedBytes:
		got = got[:maxQuotedBytes] + "…" // a number, plain ASCII
	}
	return fmt.Errorf("must be %s, got %s", want, got)
}
