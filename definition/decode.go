package definition

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wfhost/wfhost/abi"
)

// Fault is an error in a definition.
type Fault struct {
	Pointer string `json:"pointer"` // JSON Pointer to the value, "" for the whole definition
	Line    int    `json:"line"`    // from 1
	Message string `json:"message"`
}

// Error returns the place and the message.
func (f *Fault) Error() string {
	where := f.Pointer
	if where == "" {
		where = "the definition"
	}
	return fmt.Sprintf("line %d: %s: %s", f.Line, where, f.Message)
}

// maxFaults limits the faults, and the warnings, that are reported for a definition.
const maxFaults = 20

// Faults lists 1 to 20 errors in a definition, in the order of its text.
type Faults []*Fault

// Error returns the faults, one on each line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// decoder reads a definition from a tree and collects its faults.
type decoder struct {
	d      *Definition
	faults Faults
	reads  []reading // of the current step

	results []reading // of the result

	checkSchema func(text []byte) error
	parts       int // of all expressions so far
	patterns    int // instructions of the patterns of all expressions so far
}

// reading is an expression that reads steps.
type reading struct {
	at    *Node
	steps []string
	any   bool // may also read steps whose names are computed
}

// failf adds a fault at a node.
func (d *decoder) failf(n *Node, format string, args ...any) {
	if len(d.faults) < maxFaults {
		d.faults = append(d.faults, &Fault{n.Pointer(), n.Line, fmt.Sprintf(format, args...)})
	}
}

// warnf adds a warning at a node.
func (d *decoder) warnf(n *Node, format string, args ...any) {
	if len(d.d.Warnings) < maxFaults {
		d.d.Warnings = append(d.d.Warnings, &Fault{n.Pointer(), n.Line, fmt.Sprintf(format, args...)})
	}
}

// object reads the fields of a node. done reports the fields that were not read as faults.
type object struct {
	d     *decoder
	n     *Node
	asked []string
}

// object returns a node as an object. If the node is not an object, it reports a fault and returns an empty object.
func (d *decoder) object(n *Node, what string) *object {
	if n.Kind != Object {
		d.failf(n, "%s must be an object, got %s", what, n.Kind)
		return &object{d: d, n: &Node{Kind: Object, Place: n.Place, Line: n.Line}}
	}
	return &object{d: d, n: n}
}

// get returns the field with one of several synonymous names; nil if it is missing or null.
func (o *object) get(names ...string) *Node {
	o.asked = append(o.asked, names...)
	var found *Node
	for _, name := range names {
		n := o.n.field(name)
		if n == nil || n.Kind == Null {
			continue
		}
		if found != nil {
			o.d.failf(n, "%q says the same as %q, and both are there", name, found.Place.Key())
		}
		found = n
	}
	return found
}

// has reports whether a field exists and is not null.
func (o *object) has(name string) bool {
	n := o.n.field(name)
	return n != nil && n.Kind != Null
}

// refuse reports a field as a fault. instead says what to use instead.
func (o *object) refuse(name, instead string) {
	if o.has(name) {
		o.d.failf(o.n.field(name), "%s", instead)
	}
	o.asked = append(o.asked, name)
}

// done reports the fields that were not read.
func (o *object) done() {
	for _, m := range o.n.Members {
		if !slices.Contains(o.asked, m.Key) {
			known := slices.Clone(o.asked)
			slices.Sort(known)
			o.d.failf(m.Value, "the field %q is unknown; known are %s", shortened(m.Key), strings.Join(slices.Compact(known), ", "))
		}
	}
}

// missing reports that a required field is missing.
func (o *object) missing(format string, args ...any) {
	o.d.failf(o.n, format, args...)
}

// is reports whether a node exists and has a kind. It reports a fault if the node has another kind.
func (o *object) is(n *Node, k Kind) bool {
	if n != nil && n.Kind != k {
		o.d.failf(n, "it must be %s, got %s", k, n.Kind)
		return false
	}
	return n != nil
}

// text returns a text. A text with more than most characters is a fault.
func (o *object) text(most int, names ...string) string {
	n := o.get(names...)
	if !o.is(n, Text) {
		return ""
	}
	if c := utf8.RuneCountInString(n.Text); c > most {
		o.d.failf(n, "it has %d characters, the limit is %d", c, most)
		return ""
	}
	return n.Text
}

// name returns a name of 1 to 100 characters.
func (o *object) name(names ...string) string {
	n := o.get(names...)
	if !o.is(n, Text) {
		return ""
	}
	o.d.checkName(n)
	return n.Text
}

// Limits of names. Both other systems have the same limits, and the journal has room to append a suffix.
const (
	maxNameChars = 100
	maxNameBytes = 200
)

// checkName reports a fault if a text is not a valid name.
func (d *decoder) checkName(n *Node) {
	c := utf8.RuneCountInString(n.Text)
	switch {
	case c < 1 || c > maxNameChars:
		d.failf(n, "a name has 1 to %d characters, got %d", maxNameChars, c)
	case len(n.Text) > maxNameBytes:
		d.failf(n, "the name %.40q… has %d bytes, the limit is %d", n.Text, len(n.Text), maxNameBytes)
	default:
		if err := abi.CheckName("the name", n.Text); err != nil {
			d.failf(n, "%s", plainError(err))
		}
	}
}

// plainError returns the message of an error without its code.
func plainError(err error) string {
	if e, ok := errors.AsType[*abi.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// names returns a list of names.
func (o *object) names(field ...string) (list []string) {
	n := o.get(field...)
	if n != nil && n.Kind == Text { // a single name
		return []string{n.Text}
	}
	if !o.is(n, List) {
		return nil
	}
	for _, item := range n.Items {
		if item.Kind != Text {
			o.d.failf(item, "it must be a text, got %s", item.Kind)
			continue
		}
		if slices.Contains(list, item.Text) {
			o.d.failf(item, "%q is there twice", item.Text)
		}
		list = append(list, item.Text)
	}
	return list
}

// boolean returns a boolean, false if there is none.
func (o *object) boolean(names ...string) bool {
	n := o.get(names...)
	return o.is(n, Bool) && n.Text == "true"
}

// integer returns an integer from least to most; otherwise is the default.
func (o *object) integer(least, most, otherwise int, names ...string) int {
	n := o.get(names...)
	if !o.is(n, Number) {
		return otherwise
	}
	i, err := strconv.ParseFloat(n.Text, 64)
	if err != nil || i != math.Trunc(i) || i < float64(least) || i > float64(most) {
		o.d.failf(n, "it must be a whole number from %d to %d, got %.40s", least, most, n.Text)
		return otherwise
	}
	return int(i)
}

// number returns a number from least to most; otherwise is the default.
func (o *object) number(least, most, otherwise float64, names ...string) float64 {
	n := o.get(names...)
	if !o.is(n, Number) {
		return otherwise
	}
	f, err := strconv.ParseFloat(n.Text, 64)
	if err != nil || !(f >= least && f <= most) {
		o.d.failf(n, "it must be a number from %v to %v, got %.40s", least, most, n.Text)
		return otherwise
	}
	return f
}

// choice returns one of the texts in of; otherwise is the default.
func (o *object) choice(otherwise string, of []string, names ...string) string {
	n := o.get(names...)
	if !o.is(n, Text) {
		return otherwise
	}
	if !slices.Contains(of, n.Text) {
		o.d.failf(n, "it must be one of %s, got %.40q", strings.Join(of, ", "), n.Text)
		return otherwise
	}
	return n.Text
}

// duration reads a duration as text. It returns milliseconds, 0 if there is none.
func (o *object) duration(least, most int64, names ...string) int64 {
	n := o.get(names...)
	if !o.is(n, Text) {
		return 0
	}
	ms, err := abi.ParseDuration(n.Text)
	if err != nil {
		o.d.failf(n, "%s", plainError(err))
		return 0
	}
	return o.within(n, ms, least, most)
}

// within reports a fault if a duration is out of bounds.
func (o *object) within(n *Node, ms, least, most int64) int64 {
	if ms < least || ms > most {
		o.d.failf(n, "it must be from %s to %s, got %s", abi.FormatDuration(least), abi.FormatDuration(most), abi.FormatDuration(ms))
		return 0
	}
	return ms
}

// millis reads a number of milliseconds, 0 if there is none.
func (o *object) millis(least, most int64, names ...string) int64 {
	return int64(o.number(float64(least), float64(most), 0, names...))
}

// either reads a duration from the field text or, as a number of milliseconds, from the field number. It returns
// milliseconds, 0 if there is none.
func (o *object) either(least, most int64, text, number string) int64 {
	d, ms := o.duration(least, most, text), o.millis(least, most, number)
	if o.has(text) && o.has(number) {
		o.d.failf(o.n.field(number), "%q says the same as %q, and both are there", number, text)
	}
	return max(d, ms)
}
