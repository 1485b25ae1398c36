package origin

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// maxSortedDepth bounds how deep in each other the objects and arrays are whose members are sorted: each level copies what is
// in it, so without a bound an input of 1 MiB would cost gigabytes. What lies deeper is compared as it is written.
const maxSortedDepth = 64

// InputDigest returns the SHA-256 of an input. White space and the order of the members of objects make no difference if it is
// JSON; everything else does, such as 1 and 1.0.
func InputDigest(input []byte) store.Digest {
	b, ok := compact(input)
	if ok {
		b, _ = (&sorter{text: b}).value(make([]byte, 0, len(b)), 0, 0)
	}
	return sha256.Sum256(b)
}

// WrittenDigest returns the SHA-256 of an input in which the order of members makes a difference, which is what releases before
// InputDigest stored.
func WrittenDigest(input []byte) store.Digest {
	b, _ := compact(input)
	return sha256.Sum256(b)
}

// compact returns JSON without white space, and whether the input is JSON.
func compact(input []byte) ([]byte, bool) {
	var b bytes.Buffer
	if json.Compact(&b, input) != nil || b.Len() == 0 {
		return input, false
	}
	return b.Bytes(), true
}

// sorter writes compact, valid JSON with the members of objects sorted by their names.
type sorter struct{ text []byte }

// value appends the value that begins at i to dst, and returns where it ends.
func (s *sorter) value(dst []byte, i, depth int) ([]byte, int) {
	switch c := s.text[i]; {
	case c == '{' && depth < maxSortedDepth:
		return s.object(dst, i, depth)
	case c == '[' && depth < maxSortedDepth:
		dst = append(dst, c)
		for i++; s.text[i] != ']'; {
			if dst, i = s.value(dst, i, depth+1); s.text[i] == ',' {
				dst, i = append(dst, ','), i+1
			}
		}
		return append(dst, ']'), i + 1
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
		from, name := len(buffer), i
		i = s.end(i)
		members = append(members, member{name: s.text[name:i]})
		buffer = append(append(buffer, s.text[name:i]...), ':')
		buffer, i = s.value(buffer, i+1, depth+1)
		ends = append(ends, from, len(buffer))
		if s.text[i] == ',' {
			i++
		}
	}
	for n := range members { // the buffer does not move any more
		members[n].text = buffer[ends[2*n]:ends[2*n+1]]
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
		if i++; i == len(s.text) {
			return i
		}
		if c := s.text[i]; open == 0 && (c == ',' || c == ':' || c == '}' || c == ']') {
			return i
		}
	}
}
