package schema

import (
	"encoding/json"
	"io"
)

// A value that is too large for the library is checked as it is read, if all parts of its schema are plain: that keeps nothing
// of it in memory. Without it, an honest list of a million numbers would be refused, or values could be smuggled past a schema
// among a hundred thousand others.

// both are parts of a schema all of which a value has to fit to.
type both []*plain

// stream reads values from a decoder.
type stream struct {
	d     *json.Decoder
	depth int
}

// fits reads one value, and reports that it fits for sure. After an error, or false, the decoder is of no use.
func (s *stream) fits(parts both) bool {
	tok, err := s.d.Token()
	if err != nil {
		return false
	}
	kind, list := "object", false
	switch tok {
	case json.Delim('{'):
	case json.Delim('['):
		kind, list = "array", true
	default:
		for _, p := range parts {
			if work := maxParts; !p.fits(tok, &work) {
				return false
			}
		}
		return true
	}
	parts, ok := chosen(parts, kind)
	if s.depth++; !ok || s.depth > MaxDepth {
		return false
	}
	if list {
		return s.array(parts)
	}
	return s.object(parts)
}

// chosen follows references, and of alternatives takes the one that the kind of a list or object leaves. It is false if none is
// left, or more than one.
func chosen(parts both, kind string) (both, bool) {
	var all both
	for i := 0; i < len(parts); i++ {
		p := parts[i]
		if p == nil || len(parts) > maxParts {
			return nil, false
		}
		if !p.takes(kind, maxParts) {
			return nil, false
		}
		all = append(all, p)
		if p.ref != nil {
			parts = append(parts[:len(parts):len(parts)], p.ref)
		}
		if p.anyOf == nil {
			continue
		}
		var left both
		for _, x := range p.anyOf {
			if x.takes(kind, maxParts) {
				left = append(left, x)
			}
		}
		if len(left) != 1 {
			return nil, false
		}
		parts = append(parts[:len(parts):len(parts)], left[0])
	}
	return all, true
}

// maxParts bounds the references that are followed for one value, which may lead in a circle.
const maxParts = 100

// takes reports whether a value of a kind may fit, as far as types say.
func (p *plain) takes(kind string, steps int) bool {
	if p == nil || steps == 0 {
		return false
	}
	if !p.is(kind) {
		return false
	}
	if p.ref != nil && !p.ref.takes(kind, steps-1) {
		return false
	}
	for _, x := range p.anyOf {
		if x.takes(kind, steps-1) {
			return true
		}
	}
	return p.anyOf == nil
}

// end reads the end of a list or object.
func (s *stream) end() bool {
	s.depth--
	_, err := s.d.Token()
	return err == nil
}

func (s *stream) array(parts both) bool {
	var items both
	for _, p := range parts {
		if p.enum != nil {
			return false
		}
		if p.items != nil {
			items = append(items, p.items)
		}
	}
	n := 0
	for ; s.d.More(); n++ {
		if !s.fits(items) {
			return false
		}
	}
	for _, p := range parts {
		if !within(p.minItems, p.maxItems, func() int { return n }) {
			return false
		}
	}
	return s.end()
}

func (s *stream) object(parts both) bool {
	missing := map[string]bool{}
	for _, p := range parts {
		if p.enum != nil {
			return false
		}
		for _, name := range p.required {
			missing[name] = true
		}
	}
	for s.d.More() {
		tok, err := s.d.Token()
		name, isName := tok.(string)
		if err != nil || !isName {
			return false
		}
		delete(missing, name)
		var next both
		for _, p := range parts {
			switch of, known := p.properties[name]; {
			case known:
				next = append(next, of)
			case p.closed:
				return false
			case p.additional != nil:
				next = append(next, p.additional)
			}
		}
		if !s.fits(next) {
			return false
		}
	}
	return len(missing) == 0 && s.end()
}

// streamed reports that a text is one JSON value that fits to a schema for sure.
func (s *Schema) streamed(r io.Reader) bool {
	if s.plain == nil {
		return false
	}
	d := json.NewDecoder(r)
	d.UseNumber()
	st := &stream{d: d}
	if !st.fits(both{s.plain}) {
		return false
	}
	_, err := d.Token()
	return err == io.EOF //nolint:errorlint // the decoder returns it as it is
}
