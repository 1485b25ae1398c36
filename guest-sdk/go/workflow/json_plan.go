package workflow

import (
	"encoding"
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"
	"unsafe"
)

// Most inputs and results are structs of numbers, text, booleans, and slices and structs of these. Package json takes as
// long for a small struct as the rest of a step. A plan describes a type in memory and in JSON. It is made once: for the
// types of registered functions, in the image. A plan reads and writes plain values: names as they are declared, no null,
// no escapes, no unusual numbers. If any part of a value is not plain, package json reads or writes all of it, so that the
// result is the same.

// plan describes how values of a type are read and written.
type plan struct {
	kind   reflect.Kind
	size   uintptr
	elem   *plan          // of a slice
	slice  reflect.Type   // of a slice
	fields []plannedField // of a struct
}

type plannedField struct {
	name      string
	key       string // with quotes and colon
	offset    uintptr
	omitEmpty bool
	plan      *plan
}

// plans holds the plans by type, nil for types without a plan. The map is immutable: planOf replaces it by a larger copy.
var plans atomic.Pointer[map[reflect.Type]*plan]

// maxPlanDepth limits the nesting of types, since a type may contain itself.
const maxPlanDepth = 8

// planOf returns the plan of a struct or slice type, nil if it has none.
func planOf(t reflect.Type) *plan {
	known := plans.Load()
	if known == nil {
		known = &map[reflect.Type]*plan{}
	}
	p, ok := (*known)[t]
	if !ok {
		p = newPlan(t, maxPlanDepth)
		if p != nil && p.kind != reflect.Struct && p.kind != reflect.Slice {
			p = nil
		}
		more := maps.Clone(*known)
		more[t] = p
		plans.Store(&more) // may lose the plan of another goroutine, which is then made again
	}
	return p
}

var (
	marshaler       = reflect.TypeFor[json.Marshaler]()
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonNumber      = reflect.TypeFor[json.Number]() // text that package json writes as a number
)

func newPlan(t reflect.Type, depth int) *plan {
	p := reflect.PointerTo(t) // has the methods of t, too
	if depth == 0 || t == jsonNumber || p.Implements(marshaler) || p.Implements(unmarshaler) || p.Implements(textMarshaler) ||
		p.Implements(textUnmarshaler) {
		return nil
	}
	pl := &plan{kind: t.Kind(), size: t.Size()}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float64, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return pl
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 { // base64
			return nil
		}
		pl.slice = t
		pl.elem = newPlan(t.Elem(), depth-1)
		if pl.elem == nil {
			return nil
		}
		return pl
	case reflect.Struct:
		if pl.addFields(t, depth) {
			return pl
		}
	}
	return nil
}

// addFields adds the fields of a struct to its plan. It returns false if a field is not plain.
func (pl *plan) addFields(t reflect.Type, depth int) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("json")
		if f.Anonymous {
			return false
		}
		if !f.IsExported() || tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if !tagged || name == "" {
			name = f.Name
		}
		if !plainName(name) || options != "" && options != "omitempty" {
			return false
		}
		for i := range pl.fields {
			if strings.EqualFold(pl.fields[i].name, name) { // package json decides which field a name means
				return false
			}
		}
		elem := newPlan(f.Type, depth-1)
		if elem == nil {
			return false
		}
		pl.fields = append(pl.fields, plannedField{name, `"` + name + `":`, f.Offset, options != "", elem})
	}
	return true
}

// plainName reports whether a name needs no escapes in JSON and is valid in a tag.
func plainName(s string) bool {
	for i := range len(s) {
		if c := s[i] | ' '; (c < 'a' || c > 'z') && (s[i] < '0' || s[i] > '9') && s[i] != '_' && s[i] != '-' {
			return false
		}
	}
	return s != ""
}

// marshalPlanned encodes a value by the plan of its type. It returns false if there is no plan or the value is not plain.
func marshalPlanned(v any) ([]byte, bool) {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Struct && t.Kind() != reflect.Slice {
		return nil, false
	}
	pl := planOf(t)
	if pl == nil {
		return nil, false
	}
	// An interface holds the address of a value that is not itself a pointer. Slices, and structs with planned fields, are
	// such values.
	return pl.append(make([]byte, 0, 64), (*[2]unsafe.Pointer)(unsafe.Pointer(&v))[1])
}

// append appends the value at p.
func (pl *plan) append(b []byte, p unsafe.Pointer) ([]byte, bool) {
	switch pl.kind {
	case reflect.Bool:
		return strconv.AppendBool(b, *(*bool)(p)), true
	case reflect.String:
		s := *(*string)(p)
		if !plain(s) {
			return nil, false
		}
		return append(append(append(b, '"'), s...), '"'), true
	case reflect.Float64:
		f := *(*float64)(p)
		if abs := math.Abs(f); f != 0 && (abs < 1e-6 || abs >= 1e21 || abs != abs) {
			return nil, false
		}
		return strconv.AppendFloat(b, f, 'f', -1, 64), true
	case reflect.Slice:
		return pl.appendSlice(b, p)
	case reflect.Struct:
		return pl.appendStruct(b, p)
	}
	return strconv.AppendInt(b, pl.int(p), 10), true
}

func (pl *plan) appendSlice(b []byte, p unsafe.Pointer) (_ []byte, ok bool) {
	s := *(*[]byte)(p) // all slices have the same layout
	if s == nil {
		return append(b, "null"...), true
	}
	b = append(b, '[')
	for i := range len(s) {
		if i > 0 {
			b = append(b, ',')
		}
		b, ok = pl.elem.append(b, unsafe.Add(unsafe.Pointer(unsafe.SliceData(s)), uintptr(i)*pl.elem.size))
		if !ok {
			return nil, false
		}
	}
	return append(b, ']'), true
}

func (pl *plan) appendStruct(b []byte, p unsafe.Pointer) (_ []byte, ok bool) {
	b = append(b, '{')
	first := true
	for i := range pl.fields {
		f := &pl.fields[i]
		at := unsafe.Add(p, f.offset)
		if f.omitEmpty && f.plan.empty(at) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b, ok = f.plan.append(append(b, f.key...), at)
		if !ok {
			return nil, false
		}
	}
	return append(b, '}'), true
}

// empty reports whether omitempty omits the value at p.
func (pl *plan) empty(p unsafe.Pointer) bool {
	switch pl.kind {
	case reflect.Bool:
		return !*(*bool)(p)
	case reflect.String:
		return *(*string)(p) == ""
	case reflect.Float64:
		return *(*float64)(p) == 0
	case reflect.Slice:
		return len(*(*[]byte)(p)) == 0
	case reflect.Struct:
		return false
	}
	return pl.int(p) == 0
}

// int returns the integer at p.
func (pl *plan) int(p unsafe.Pointer) int64 {
	switch pl.size {
	case 1:
		return int64(*(*int8)(p))
	case 2:
		return int64(*(*int16)(p))
	case 4:
		return int64(*(*int32)(p))
	}
	return *(*int64)(p)
}

// unmarshalPlanned decodes b into v, a pointer, by the plan of its type. If there is no plan or b is not plain, it returns
// false and leaves v unchanged.
func unmarshalPlanned(b []byte, v any) bool {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct && t.Elem().Kind() != reflect.Slice {
		return false
	}
	rv := reflect.ValueOf(v)
	pl := planOf(t.Elem())
	if pl == nil || rv.IsNil() {
		return false
	}
	next := reflect.New(t.Elem())
	next.Elem().Set(rv.Elem())
	r := plainReader{b: b}
	if !r.value(pl, next.UnsafePointer()) {
		return false
	}
	if r.space(); r.at != len(b) {
		return false
	}
	rv.Elem().Set(next.Elem())
	return true
}

// plainReader parses plain JSON.
type plainReader struct {
	b  []byte
	at int
}

func (r *plainReader) space() {
	for r.at < len(r.b) && (r.b[r.at] == ' ' || r.b[r.at] == '\n' || r.b[r.at] == '\t' || r.b[r.at] == '\r') {
		r.at++
	}
}

// take skips white space and consumes c if it comes next.
func (r *plainReader) take(c byte) bool {
	r.space()
	if r.at >= len(r.b) || r.b[r.at] != c {
		return false
	}
	r.at++
	return true
}

// value parses a value to p. It returns false if the value is not plain.
func (r *plainReader) value(pl *plan, p unsafe.Pointer) bool {
	r.space()
	switch pl.kind {
	case reflect.Bool:
		return r.bool((*bool)(p))
	case reflect.String:
		s, ok := r.text()
		if ok {
			*(*string)(p) = string(s)
		}
		return ok
	case reflect.Float64:
		f, err := strconv.ParseFloat(string(r.number()), 64)
		*(*float64)(p) = f
		return err == nil
	case reflect.Slice:
		return r.slice(pl, p)
	case reflect.Struct:
		return r.object(pl, p)
	}
	return r.int(pl, p)
}

func (r *plainReader) bool(p *bool) bool {
	switch rest := r.b[r.at:]; {
	case len(rest) >= 4 && string(rest[:4]) == "true":
		*p = true
		r.at += 4
	case len(rest) >= 5 && string(rest[:5]) == "false":
		*p = false
		r.at += 5
	default:
		return false
	}
	return true
}

// text parses a string without escapes.
func (r *plainReader) text() (s []byte, ok bool) {
	if !r.take('"') {
		return nil, false
	}
	begin, ascii := r.at, true
	for ; r.at < len(r.b); r.at++ {
		switch c := r.b[r.at]; {
		case c == '"':
			s = r.b[begin:r.at]
			r.at++
			return s, ascii || utf8.Valid(s)
		case c < ' ' || c == '\\':
			return nil, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false
}

// number consumes a number without an exponent. It returns nil if the number is not valid in JSON or has an exponent.
func (r *plainReader) number() []byte {
	begin := r.at
	if r.at < len(r.b) && r.b[r.at] == '-' {
		r.at++
	}
	leading := r.digits()
	if leading == 0 || leading > 1 && r.b[r.at-leading] == '0' {
		return nil
	}
	if r.at < len(r.b) && r.b[r.at] == '.' {
		r.at++
		if r.digits() == 0 {
			return nil
		}
	}
	if r.at < len(r.b) && r.b[r.at]|' ' == 'e' { // left to package json
		return nil
	}
	return r.b[begin:r.at]
}

func (r *plainReader) digits() (n int) {
	for r.at < len(r.b) && r.b[r.at] >= '0' && r.b[r.at] <= '9' {
		r.at++
		n++
	}
	return n
}

// maxPlainDigits is the number of digits that fit into any int64.
const maxPlainDigits = 18

// int parses an integer to p.
func (r *plainReader) int(pl *plan, p unsafe.Pointer) bool {
	text := r.number()
	digits, negative := text, len(text) > 0 && text[0] == '-'
	if negative {
		digits = text[1:]
	}
	if len(digits) == 0 || len(digits) > maxPlainDigits {
		return false
	}
	n := int64(0)
	for _, c := range digits {
		if c == '.' {
			return false
		}
		n = 10*n + int64(c-'0')
	}
	if negative {
		n = -n
	}
	switch pl.size {
	case 1:
		*(*int8)(p) = int8(n)
		return n == int64(int8(n))
	case 2:
		*(*int16)(p) = int16(n)
		return n == int64(int16(n))
	case 4:
		*(*int32)(p) = int32(n)
		return n == int64(int32(n))
	}
	*(*int64)(p) = n
	return true
}

// slice parses an array into a nil slice. Package json would reuse the elements of any other slice, so it returns false.
func (r *plainReader) slice(pl *plan, p unsafe.Pointer) bool {
	if !r.take('[') || *(*[]byte)(p) != nil {
		return false
	}
	list := reflect.NewAt(pl.slice, p).Elem()
	list.Set(reflect.MakeSlice(pl.slice, 0, 0))
	if r.take(']') {
		return true
	}
	for {
		n := list.Len()
		if n == list.Cap() {
			list.Grow(max(4, n))
		}
		list.SetLen(n + 1)
		if !r.value(pl.elem, list.Index(n).Addr().UnsafePointer()) {
			return false
		}
		if r.take(']') {
			return true
		}
		if !r.take(',') {
			return false
		}
	}
}

// object parses a struct. The names must be those of its fields, in the same case.
func (r *plainReader) object(pl *plan, p unsafe.Pointer) bool {
	if !r.take('{') {
		return false
	}
	if r.take('}') {
		return true
	}
	for guess := 0; ; guess++ { // fields mostly come in the order of their declaration
		name, ok := r.text()
		if !ok || !r.take(':') {
			return false
		}
		f := pl.field(guess, name)
		if f == nil || !r.value(f.plan, unsafe.Add(p, f.offset)) {
			return false
		}
		if r.take('}') {
			return true
		}
		if !r.take(',') {
			return false
		}
	}
}

// field finds a field by its name. It tries the index guess first.
func (pl *plan) field(guess int, name []byte) *plannedField {
	if guess < len(pl.fields) && pl.fields[guess].name == string(name) {
		return &pl.fields[guess]
	}
	for i := range pl.fields {
		if pl.fields[i].name == string(name) {
			return &pl.fields[i]
		}
	}
	return nil
}
