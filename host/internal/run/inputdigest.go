package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/wfhost/wfhost/store"
)

// maxSortedDepth bounds the nesting of objects and arrays whose members are sorted. Each level copies its contents,
// so without a bound an input of 1 MiB would cost gigabytes. Deeper values are compared as written.
const maxSortedDepth = 64

// InputDigest returns the SHA-256 of an input. If the input is JSON, the digest ignores white space, the order of
// object members, and whether a character is escaped. All other differences count, such as 1 and 1.0.
func InputDigest(input []byte) store.Digest { return digestOf(input, true) }

// IsInputDigest reports whether a stored digest is the digest of an input, as InputDigest or an earlier release
// computed it. Earlier releases hashed the text as written, or the text with sorted members and unchanged escapes.
// The latter may have been taken after a client's package json had escaped HTML characters.
func IsInputDigest(stored store.Digest, input []byte) bool {
	if stored == InputDigest(input) {
		return true
	}
	written, ok := compact(input)
	if stored == sha256.Sum256(written) {
		return true
	}
	var escaped bytes.Buffer
	json.HTMLEscape(&escaped, written)
	return ok && (stored == digestOf(written, false) || stored == digestOf(escaped.Bytes(), false))
}

func digestOf(input []byte, unescape bool) store.Digest {
	b, ok := compact(input)
	if ok {
		b, _ = (&sorter{text: b, unescape: unescape}).value(make([]byte, 0, len(b)), 0, 0)
	}
	return sha256.Sum256(b)
}

// compact removes white space from JSON, and reports whether the input is JSON.
func compact(input []byte) ([]byte, bool) {
	var b bytes.Buffer
	if json.Compact(&b, input) != nil || b.Len() == 0 {
		return input, false
	}
	return b.Bytes(), true
}

// sorter writes compact, valid JSON with object members sorted by name. If unescape is set, strings keep only the
// escapes that JSON requires.
type sorter struct {
	text     []byte
	unescape bool
}

// value appends the value that begins at i to dst, and returns where it ends.
func (s *sorter) value(dst []byte, i, depth int) ([]byte, int) {
	switch c := s.text[i]; {
	case c == '{' && depth < maxSortedDepth:
		return s.object(dst, i, depth)
	case c == '[' && depth < maxSortedDepth:
		dst = append(dst, c)
		for i++; s.text[i] != ']'; {
			dst, i = s.value(dst, i, depth+1)
			if s.text[i] == ',' {
				dst, i = append(dst, ','), i+1
			}
		}
		return append(dst, ']'), i + 1
	case c == '"':
		return s.string(dst, i)
	}
	end := s.end(i)
	return append(dst, s.text[i:end]...), end
}

// object is value for an object.
func (s *sorter) object(dst []byte, i, depth int) ([]byte, int) {
	type member struct{ name, text []byte }
	var members []member
	var buffer []byte
	var ends []int
	for i++; s.text[i] != '}'; {
		from := len(buffer)
		buffer, i = s.string(buffer, i)
		name := len(buffer)
		buffer, i = s.value(append(buffer, ':'), i+1, depth+1)
		ends = append(ends, from, name, len(buffer))
		if s.text[i] == ',' {
			i++
		}
	}
	for e := ends; len(e) > 0; e = e[3:] { // the buffer no longer moves
		members = append(members, member{buffer[e[0]:e[1]], buffer[e[0]:e[2]]})
	}
	slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	dst = append(dst, '{')
	for n, m := range members {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, m.text...)
	}
	return append(dst, '}'), i + 1
}

// string appends the string that begins at i to dst, and returns where it ends.
func (s *sorter) string(dst []byte, i int) ([]byte, int) {
	end := s.end(i)
	b := s.text[i:end]
	for s.unescape {
		n := bytes.IndexByte(b, '\\')
		if n < 0 {
			break
		}
		c, size := unescaped(b[n:])
		dst, b = appendEscaped(append(dst, b[:n]...), c), b[n+size:]
	}
	return append(dst, b...), end
}

// The one-letter escapes of JSON, and the characters that they stand for.
const (
	escapeLetters = `"\/bfnrt`
	escaped       = "\"\\/\b\f\n\r\t"
)

// unescaped decodes the escape at the beginning of valid JSON. It returns the character and the length of the escape.
// For half a surrogate pair it returns the surrogate.
func unescaped(b []byte) (c rune, size int) {
	if b[1] != 'u' {
		return rune(escaped[strings.IndexByte(escapeLetters, b[1])]), 2
	}
	c = codeUnit(b)
	if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if both := utf16.DecodeRune(c, codeUnit(b[6:])); both != utf8.RuneError {
			return both, 12
		}
	}
	return c, 6
}

// codeUnit returns the number of an escape such as \u00e9.
func codeUnit(b []byte) rune {
	n, _ := strconv.ParseUint(string(b[2:6]), 16, 16) // valid JSON has four digits there
	return rune(n)
}

// appendEscaped appends a character of a string, escaped if JSON requires it.
func appendEscaped(dst []byte, c rune) []byte {
	switch n := strings.IndexRune(escaped, c); {
	case n >= 0 && c != '/':
		return append(dst, '\\', escapeLetters[n])
	case c < ' ' || utf16.IsSurrogate(c):
		return fmt.Appendf(dst, `\u%04x`, c)
	}
	return utf8.AppendRune(dst, c)
}

// end returns where the value that begins at i ends.
func (s *sorter) end(i int) int {
	open := 0
	for {
		switch s.text[i] {
		case '"':
			for i++; s.text[i] != '"'; i++ {
				if s.text[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			open++
		case '}', ']':
			open--
		}
		i++
		if i == len(s.text) {
			return i
		}
		if c := s.text[i]; open == 0 && (c == ',' || c == ':' || c == '}' || c == ']') {
			return i
		}
	}
}
