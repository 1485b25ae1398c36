package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wfhost/wfhost/definition/expression"
)

// Kind is the kind of a node.
type Kind int

// The kinds.
const (
	Null Kind = iota
	Bool
	Number
	Text
	List
	Object
)

var kinds = [...]string{"null", "a boolean", "a number", "a text", "a list", "an object"}

// String returns the name of a kind for errors.
func (k Kind) String() string { return kinds[k] }

// Node is a value in a text, with its place.
type Node struct {
	Kind    Kind
	Text    string   // the value of a Text; a Number as it is written; "true" or "false" for a Bool
	Items   []*Node  // of a List
	Members []Member // of an Object, in the order of the text
	Place   *Place   // nil for the whole text
	Line    int      // from 1

	byKey map[string]*Node // of an Object with many members
}

// Pointer returns the node's place, as Place.Pointer does.
func (n *Node) Pointer() string { return n.Place.Pointer() }

// Place is the place of a value in a text; nil is the whole text. It is converted to a JSON Pointer only for a fault: if each
// value had its own pointer, a long key would be repeated for each value below it.
type Place struct {
	of  *Place
	key string
}

// Child returns the place of a field, or of an element by its index.
func (p *Place) Child(key string) *Place { return &Place{p, key} }

// Key returns the name of the field at a place, "" for the whole text.
func (p *Place) Key() string {
	if p == nil {
		return ""
	}
	return p.key
}

// maxPointerKey is the largest number of bytes of a key in a pointer or in the message of a fault.
const maxPointerKey = 200

// Pointer returns the place as a JSON Pointer (RFC 6901), "" for the whole text. Keys of more than 200 bytes are shortened.
func (p *Place) Pointer() string {
	if p == nil {
		return ""
	}
	var keys []string
	for ; p != nil; p = p.of {
		keys = append(keys, strings.NewReplacer("~", "~0", "/", "~1").Replace(shortened(p.key)))
	}
	slices.Reverse(keys)
	return "/" + strings.Join(keys, "/")
}

// shortened returns a key for a fault. It truncates keys of more than maxPointerKey bytes.
func shortened(key string) string {
	if len(key) <= maxPointerKey {
		return key
	}
	return strings.ToValidUTF8(key[:maxPointerKey], "") + "…"
}

// Member is a field of an object.
type Member struct {
	Key   string
	Value *Node
}

// Limits of a text.
const (
	// MaxBytes limits the size of a definition, and is the room for it in a module. It is enough for about 1,000 steps.
	MaxBytes = 128 << 10
	// MaxDepth limits the nesting of values.
	MaxDepth = 100
)

// field returns the value of the member with a name, nil if there is none.
func (n *Node) field(name string) *Node {
	if n.byKey != nil {
		return n.byKey[name]
	}
	for _, m := range n.Members {
		if m.Key == name {
			return m.Value
		}
	}
	return nil
}

// manyMembers is the number of members from which an object is searched with a map.
const manyMembers = 16

// Append adds a member to an object. It returns an error if the key exists.
func (n *Node) Append(key string, value *Node) error {
	if n.field(key) != nil {
		return &Fault{Pointer: n.Place.Child(key).Pointer(), Line: value.Line,
			Message: fmt.Sprintf("the field %q is there twice", shortened(key))}
	}
	n.Members = append(n.Members, Member{key, value})
	switch {
	case n.byKey != nil:
		n.byKey[key] = value
	case len(n.Members) == manyMembers:
		n.byKey = map[string]*Node{}
		for _, m := range n.Members {
			n.byKey[m.Key] = m.Value
		}
	}
	return nil
}

// ReadJSON parses JSON. Its error is a *Fault with the line of the error.
func ReadJSON(text []byte) (*Node, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	r := &jsonReader{text: text, d: json.NewDecoder(bytes.NewReader(text)), line: 1}
	r.d.UseNumber()
	n, err := r.value(nil, 0)
	if err != nil {
		return nil, err
	}
	if t, err := r.d.Token(); !errors.Is(err, io.EOF) {
		return nil, &Fault{Line: r.at(), Message: fmt.Sprintf("there is more after the definition: %v", either(t, err))}
	}
	return n, nil
}

// checkText checks a text before it is parsed.
func checkText(text []byte) error {
	switch {
	case len(text) > MaxBytes:
		return &Fault{Line: 1, Message: fmt.Sprintf("the definition has %d bytes, the limit is %d", len(text), MaxBytes)}
	case !utf8.Valid(text):
		return &Fault{Line: 1, Message: "the definition is not UTF-8"}
	case len(bytes.TrimSpace(text)) == 0:
		return &Fault{Line: 1, Message: "the definition is empty"}
	}
	return nil
}

func either(t json.Token, err error) any {
	if err != nil {
		return err
	}
	return t
}

// jsonReader reads values from tokens, and counts lines.
type jsonReader struct {
	text []byte
	d    *json.Decoder
	read int // bytes of text that are counted in line
	line int
}

// at returns the line of the last token.
func (r *jsonReader) at() int {
	to := min(int(r.d.InputOffset()), len(r.text))
	r.line += bytes.Count(r.text[r.read:to], []byte{'\n'})
	r.read = to
	return r.line
}

func (r *jsonReader) value(place *Place, depth int) (*Node, error) {
	t, err := r.d.Token()
	if err != nil {
		return nil, r.unreadable(place, err)
	}
	n := &Node{Place: place, Line: r.at()}
	if depth > MaxDepth {
		return nil, &Fault{Pointer: place.Pointer(), Line: n.Line,
			Message: fmt.Sprintf("it is nested more than %d levels deep", MaxDepth)}
	}
	switch t := t.(type) {
	case nil:
	case bool:
		n.Kind, n.Text = Bool, strconv.FormatBool(t)
	case json.Number:
		n.Kind, n.Text = Number, t.String()
	case string:
		n.Kind, n.Text = Text, t
	case json.Delim:
		if t == '[' {
			n.Kind = List
			for i := 0; r.d.More(); i++ {
				item, err := r.value(place.Child(strconv.Itoa(i)), depth+1)
				if err != nil {
					return nil, err
				}
				n.Items = append(n.Items, item)
			}
		} else if err := r.members(n, depth); err != nil {
			return nil, err
		}
		if _, err := r.d.Token(); err != nil {
			return nil, r.unreadable(place, err)
		}
	}
	return n, nil
}

func (r *jsonReader) members(n *Node, depth int) error {
	n.Kind = Object
	for r.d.More() {
		t, err := r.d.Token()
		if err != nil {
			return r.unreadable(n.Place, err)
		}
		key, _ := t.(string) // the decoder refuses other keys
		v, err := r.value(n.Place.Child(key), depth+1)
		if err != nil {
			return err
		}
		if err := n.Append(key, v); err != nil {
			return err
		}
	}
	return nil
}

func (r *jsonReader) unreadable(place *Place, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		r.at()
		rest := r.text[r.read:]
		line := r.line + bytes.Count(rest[:len(rest)-len(bytes.TrimLeft(rest, " \t\r\n,:"))], []byte{'\n'})
		return &Fault{Pointer: place.Pointer(), Line: line, Message: "it is not JSON: " + syntax.Error()}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		line := 1 + bytes.Count(bytes.TrimSpace(r.text), []byte{'\n'})
		return &Fault{Pointer: place.Pointer(), Line: line, Message: "it is not JSON: it ends too early"}
	}
	return &Fault{Pointer: place.Pointer(), Line: r.at(), Message: "it is not JSON: " + err.Error()}
}

// JSON returns the value as JSON, without white space, with its fields in the order of the text.
func (n *Node) JSON() []byte { return n.append(nil) }

func (n *Node) append(b []byte) []byte {
	switch n.Kind {
	case Bool, Number:
		return append(b, n.Text...)
	case Text:
		return append(b, quote(n.Text)...)
	case List:
		b = append(b, '[')
		for i, item := range n.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.append(b)
		}
		return append(b, ']')
	case Object:
		b = append(b, '{')
		for i, m := range n.Members {
			if i > 0 {
				b = append(b, ',')
			}
			b = m.Value.append(append(append(b, quote(m.Key)...), ':'))
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

// quote returns a text as JSON, without escapes for < > &.
func quote(s string) []byte {
	if !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' }) { // most of them
		return []byte(`"` + s + `"`)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // cannot fail for a string
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Value returns the value in the types of package json, with numbers as expression.Number returns them.
func (n *Node) Value() any {
	switch n.Kind {
	case Bool:
		return n.Text == "true"
	case Number:
		return expression.Number(n.Text)
	case Text:
		return n.Text
	case List:
		list := make([]any, len(n.Items))
		for i, item := range n.Items {
			list[i] = item.Value()
		}
		return list
	case Object:
		m := make(map[string]any, len(n.Members))
		for _, f := range n.Members {
			m[f.Key] = f.Value.Value()
		}
		return m
	}
	return nil
}

// CheckNumber returns an error if a definition cannot keep a JSON number as it is written.
func CheckNumber(text string) error { return expression.CheckNumber(text) }
