// Package yamltext reads definitions in YAML 1.2 that could also be written in JSON: one document, without custom tags, merge
// keys, or keys other than text.
package yamltext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/wfhost/wfhost/definition"
)

// maxNodes limits the number of values in a text after its aliases are expanded: aliases of aliases multiply.
const maxNodes = 20_000

// Read parses YAML, which includes JSON. The error is a *definition.Fault.
func Read(text []byte) (tree *definition.Node, err error) {
	switch {
	case len(text) > definition.MaxBytes:
		return nil, &definition.Fault{Line: 1, Message: fmt.Sprintf("the definition has %d bytes, the limit is %d", len(text),
			definition.MaxBytes)}
	case !utf8.Valid(text):
		return nil, &definition.Fault{Line: 1, Message: "the definition is not UTF-8"}
	}
	defer func() {
		if v := recover(); v != nil { // the parser panicked; there is no line
			tree, err = nil, &definition.Fault{Line: 1, Message: fmt.Sprintf("it is not YAML: %v", v)}
		}
	}()
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, &definition.Fault{Line: 1, Message: "the definition is empty"}
	} else if err != nil {
		return nil, unreadable(err)
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, &definition.Fault{Line: max(more.Line, 1), Message: "there is more than one document"}
	}
	r := &reader{}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, &definition.Fault{Line: 1, Message: "the definition is empty"}
	}
	return r.value(doc.Content[0], nil, 0)
}

// lineOf matches the line number in an error of the library.
var lineOf = regexp.MustCompile(`line (\d+)`)

func unreadable(err error) error {
	text := strings.Join(strings.Fields(err.Error()), " ")
	line := 1
	if m := lineOf.FindStringSubmatch(text); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
	}
	return &definition.Fault{Line: line, Message: "it is not YAML: " + strings.TrimPrefix(text, "yaml: ")}
}

type reader struct {
	nodes int
	bytes int // of scalars
}

func (r *reader) value(y *yaml.Node, place *definition.Place, depth int) (*definition.Node, error) {
	n := &definition.Node{Place: place, Line: max(y.Line, 1)}
	fault := func(format string, args ...any) (*definition.Node, error) {
		return nil, &definition.Fault{Pointer: place.Pointer(), Line: n.Line, Message: fmt.Sprintf(format, args...)}
	}
	r.nodes++
	r.bytes += len(y.Value)
	if y.Kind == yaml.AliasNode {
		r.bytes -= len(y.Value) // the value of an alias is the name of its anchor
	}
	switch {
	case r.nodes > maxNodes:
		return fault("the definition has more than %d values, with what its aliases stand for", maxNodes)
	case r.bytes > definition.MaxBytes:
		return fault("the definition has more than %d bytes, with what its aliases stand for", definition.MaxBytes)
	case depth > definition.MaxDepth:
		return fault("it is nested more than %d levels deep", definition.MaxDepth)
	}
	switch y.Kind {
	case yaml.AliasNode:
		if y.Alias == nil {
			return fault("the alias stands for nothing")
		}
		of, err := r.value(y.Alias, place, depth+1)
		if err == nil {
			of.Line = n.Line
		}
		return of, err
	case yaml.SequenceNode, yaml.MappingNode:
		if tag := y.ShortTag(); tag != "!!seq" && tag != "!!map" {
			return fault("the tag %s is no type of JSON", tag)
		}
	}
	switch y.Kind {
	case yaml.SequenceNode:
		n.Kind = definition.List
		for i, item := range y.Content {
			of, err := r.value(item, place.Child(strconv.Itoa(i)), depth+1)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, of)
		}
		return n, nil
	case yaml.MappingNode:
		return n, r.members(n, y, depth)
	case yaml.ScalarNode:
	default:
		return fault("it is no value of JSON")
	}
	switch tag := y.ShortTag(); tag {
	case "!!null":
	case "!!bool":
		n.Kind, n.Text = definition.Bool, strings.ToLower(y.Value)
		if n.Text != "true" && n.Text != "false" { // with an explicit tag, the value may be any text
			return fault("%.40q is not a boolean: write true or false", y.Value)
		}
	case "!!int", "!!float":
		text, err := number(y.Value)
		if err != nil {
			return fault("%v", err)
		}
		n.Kind, n.Text = definition.Number, text
	case "!!str", "!!timestamp": // JSON has instants as text
		n.Kind, n.Text = definition.Text, y.Value
	default:
		return fault("the tag %s is no type of JSON", tag)
	}
	return n, nil
}

func (r *reader) members(n *definition.Node, y *yaml.Node, depth int) error {
	n.Kind = definition.Object
	for i := 0; i+1 < len(y.Content); i += 2 {
		k := y.Content[i]
		if k.Kind != yaml.ScalarNode || k.ShortTag() != "!!str" {
			what := "not text"
			if k.ShortTag() == "!!merge" {
				what = "a merge key, which YAML 1.2 does not have"
			}
			return &definition.Fault{Pointer: n.Pointer(), Line: max(k.Line, 1),
				Message: fmt.Sprintf("the key %.40q is %s", k.Value, what)}
		}
		r.bytes += len(k.Value)
		v, err := r.value(y.Content[i+1], n.Place.Child(k.Value), depth+1)
		if err != nil {
			return err
		}
		v.Line = max(k.Line, 1)
		if err := n.Append(k.Value, v); err != nil {
			return err
		}
	}
	return nil
}

// leadingZero matches an integer with a leading zero.
var leadingZero = regexp.MustCompile(`^[-+]?0[0-9_]+$`)

// number returns a number in the syntax of JSON. It refuses integers with a leading zero: YAML 1.1 reads 010 as 8 and YAML 1.2
// as 10, and the author of 01234 may mean a text.
func number(text string) (string, error) {
	if leadingZero.MatchString(text) {
		return "", fmt.Errorf("the number %.40q begins with 0, which some readers of YAML take for octal: leave out the 0, or write "+
			"it as 0o… if it is octal, or in quotes if it is a text", text)
	}
	clean := strings.ReplaceAll(strings.TrimPrefix(text, "+"), "_", "")
	i, err := strconv.ParseInt(clean, 0, 64)
	switch {
	case err == nil:
		return strconv.FormatInt(i, 10), nil
	case errors.Is(err, strconv.ErrRange): // a float64 would lose digits
		return "", fmt.Errorf("the number %.40q is not in the range of 64 bits: write it in quotes if it is a text", text)
	}
	f, err := strconv.ParseFloat(clean, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return "", fmt.Errorf("the number %.40q is none of JSON", text)
	}
	if json.Valid([]byte(clean)) {
		if err := definition.CheckNumber(clean); err != nil {
			return "", err
		}
	}
	return strconv.FormatFloat(f, 'g', -1, 64), nil
}
