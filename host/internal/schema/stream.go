package schema

import (
	"context"
	"encoding/json"
	"io"

	"github.com/wfhost/wfhost/abi"
)

// A value that is too large for the library is checked while it is read, if all parts of its schema are plain. Nothing
// of it is kept in memory. Otherwise an honest list of a million numbers would be refused, or invalid values could be
// smuggled past a schema among a hundred thousand valid ones.

// both is a list of parts of a schema; a value must fit all of them.
type both []*Plain

// MaxDepth bounds the nesting of values.
const MaxDepth = 500

// stream checks values from a decoder.
type stream struct {
	d     *json.Decoder
	depth int
	meter *Meter
}

// maxStream bounds the work for a value that is checked while it is read: ten for each byte of the largest value. Each
// takes some nanoseconds.
const maxStream = 10 * abi.MaxPayloadBytes

// fits reads one value, and reports whether it certainly fits. After false, the decoder cannot be used any more.
func (s *stream) fits(parts both) bool {
	tok, err := s.d.Token()
	if err != nil || !s.meter.Spend(1+len(parts)) {
		return false
	}
	list := false
	switch tok {
	case json.Delim('{'):
	case json.Delim('['):
		list = true
	default:
		for _, p := range parts {
			work := maxParts
			if fits := p.fits(tok, &work); !fits || !s.meter.Spend(maxParts-work) {
				return false
			}
		}
		return true
	}
	parts, ok := s.chosen(parts, list)
	s.depth++
	if !ok || s.depth > MaxDepth {
		return false
	}
	if list {
		return s.array(parts)
	}
	return s.object(parts)
}

// chosen adds the targets of references, and of each anyOf the single alternative that fits a list (or an object) by
// its type. It returns false if no alternative fits, or several do.
func (s *stream) chosen(parts both, list bool) (both, bool) {
	all := append(both{}, parts...)
	for i := 0; i < len(all); i++ {
		p := all[i]
		if len(all) > maxParts || !p.takes(list) {
			return nil, false
		}
		if !s.meter.Spend(1 + len(p.anyOf)) {
			return nil, false
		}
		if p.ref != nil {
			all = append(all, p.ref)
		}
		if p.anyOf == nil {
			continue
		}
		var left both
		for _, x := range p.anyOf {
			if x.takes(list) {
				left = append(left, x)
			}
		}
		if len(left) != 1 {
			return nil, false
		}
		all = append(all, left[0])
	}
	return all, true
}

// maxParts bounds the parts that are applied to one value.
const maxParts = 100

// takes reports whether a list, if list is true, or else an object may fit by its type.
func (p *Plain) takes(list bool) bool {
	return p != nil && (list && p.lists || !list && p.objects)
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
		if !s.meter.Spend(len(p.required)) {
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

// FitsAsRead reports whether a text is one JSON value that certainly fits. It keeps nothing of the text in memory, and
// returns false when ctx ends.
func (p *Plain) FitsAsRead(ctx context.Context, r io.Reader) bool {
	if p == nil {
		return false
	}
	d := json.NewDecoder(r)
	d.UseNumber()
	st := &stream{d: d, meter: NewMeter(ctx, maxStream)}
	if !st.fits(both{p}) {
		return false
	}
	_, err := d.Token()
	return err == io.EOF //nolint:errorlint // the decoder returns it unwrapped
}
