package instrument

import (
	"math"
	"slices"

	"github.com/wfhost/wfhost/host/internal/wasm"
)

// Value types (5.3.1) and types of references.
const (
	typeI32       = 0x7f
	typeI64       = 0x7e
	typeF64       = 0x7c // the last of the numeric ones, counted downward
	typeV128      = 0x7b
	typeFuncRef   = 0x70
	typeExternRef = 0x6f // the last of all
	formFunction  = 0x60
	pageBytes     = 65536
)

const header = "\x00asm\x01\x00\x00\x00"

// nameSection is the only custom section that is kept: stack traces use its function names.
const nameSection = "name"

// split finds the sections.
func (r *rewriter) split() {
	if len(r.Module) < len(header) || string(r.Module[:len(header)]) != header {
		r.Failf("the module has no header of version 1")
		return
	}
	r.At = len(header)
	next := 0 // in sectionOrder
	for r.More() {
		id := r.Byte("a section")
		if id >= sectionKinds {
			r.Failf("the unknown section %d stands", id)
			return
		}
		content := r.Bytes("the " + sectionNames[id] + " section")
		s := span{r.At - len(content), r.At}
		place := slices.Index(sectionOrder[:], id)
		switch {
		case r.Err != nil:
		case id == secCustom:
			r.custom(s)
		case place < next:
			r.Failf("the %s section, which is out of order, ends", sectionNames[id])
		default:
			r.sections[id], next = s, place+1
		}
	}
}

func (r *rewriter) present(id byte) bool { return r.sections[id].to > 0 }

// custom records the first name section. Defects in it are no errors (7.4.1), so it uses a reader of its own.
func (r *rewriter) custom(s span) {
	c := wasm.Reader{Module: r.Module, At: s.from, End: s.to}
	if name := c.Bytes("a name"); c.Err == nil && string(name) == nameSection && r.names.to == 0 {
		r.names = span{c.At, s.to}
	}
}

// enter starts reading a section. It returns false if the section is missing.
func (r *rewriter) enter(id byte) bool {
	if r.Err != nil || !r.present(id) {
		return false
	}
	s := r.sections[id]
	r.At, r.End, r.mark = s.from, s.to, s.from
	return true
}

// leave reports bytes left over in the section.
func (r *rewriter) leave(id byte) {
	if r.Err == nil && r.At != r.End {
		r.Failf("%d bytes of the %s section are left over", r.End-r.At, sectionNames[id])
	}
}

// survey reads what must be known before writing.
func (r *rewriter) survey() {
	for _, s := range []struct {
		id   byte
		read func()
	}{
		{secType, r.surveyTypes}, {secImport, r.surveyImports}, {secFunction, r.surveyFunctions},
		{secTable, r.surveyTables}, {secMemory, r.surveyMemory}, {secGlobal, r.surveyGlobals}, {secExport, r.surveyExports},
		{secStart, r.surveyStart},
	} {
		if r.enter(s.id) {
			s.read()
			r.leave(s.id)
		}
	}
	for kind, name := range []string{kindTable: "table", kindMemory: "memory", kindGlobal: "global"} {
		if kind != kindFunction && r.imported[kind] > 0 {
			r.refuse("it imports a " + name)
		}
	}
	if r.memories == 0 {
		r.refuse("it has no memory")
	}
	if len(r.mutable) > MaxGlobals {
		r.refuse("it has too many mutable globals")
	}
}

func (r *rewriter) surveyTypes() {
	n := r.Count("types")
	r.nullary = n
	for i := 0; i < n && r.Err == nil; i++ {
		if form := r.Byte("a type"); form != formFunction {
			r.Failf("a type of the unknown form 0x%02x stands", form)
		}
		s := signature{params: r.valueTypes("parameters"), results: r.valueTypes("results")}
		if s.results == 1 && r.Err == nil {
			s.result = r.Module[r.At-1]
		}
		r.types = append(r.types, s)
		if s == (signature{}) && r.nullary == n {
			r.nullary = i
		}
	}
}

// valueType reads a value type of one byte. It refuses longer reference types, even if an engine accepts them: the
// rewriter would continue at a different byte than the engine.
func (r *rewriter) valueType(what string) byte {
	kind := r.Byte(what)
	if r.Err == nil && kind != typeFuncRef && kind != typeExternRef && (kind < typeV128 || kind > typeI32) {
		r.Failf("%s of the unknown type 0x%02x stands", what, kind)
	}
	return kind
}

// valueTypes reads a list of value types and returns their number.
func (r *rewriter) valueTypes(what string) int {
	n := r.Count(what)
	for i := 0; i < n && r.Err == nil; i++ {
		r.valueType("one of the " + what)
	}
	return n
}

func (r *rewriter) surveyImports() {
	for range r.Count("imports") {
		r.Bytes("the module of an import")
		r.Bytes("the name of an import")
		kind := r.Byte("an import")
		switch kind {
		case kindFunction:
			r.Index("the type", len(r.types))
		case kindTable:
			r.valueType("a table")
			r.limits()
		case kindMemory:
			r.limits()
		case kindGlobal:
			r.valueType("a global")
			r.Byte("a global")
		default:
			r.Failf("an import of the unknown kind %d stands", kind)
		}
		if r.Err != nil {
			return
		}
		r.imported[kind]++
	}
	r.globals = r.imported[kindGlobal]
}

// limits reads the limits of a table or a memory (5.3.8). Without a maximum, high is the largest number.
func (r *rewriter) limits() (low, high uint32) {
	flags := r.Byte("limits")
	low, high = r.U32("limits"), math.MaxUint32
	switch flags {
	case 0:
	case limitsWithMaximum:
		high = r.U32("limits")
	default:
		r.Failf("limits of the unknown form 0x%02x stand", flags)
	}
	return low, high
}

func (r *rewriter) surveyFunctions() {
	n := r.Count("functions")
	r.defined = make([]uint32, 0, n)
	for i := 0; i < n && r.Err == nil; i++ {
		r.defined = append(r.defined, r.Index("the type", len(r.types)))
	}
}

func (r *rewriter) surveyTables() {
	for n := r.Count("tables"); n > 0 && r.Err == nil; n-- {
		r.valueType("a table")
		low, _ := r.limits()
		r.m.Elements += int(low)
	}
}

func (r *rewriter) surveyMemory() {
	r.memories = r.Count("memories")
	for i := 0; i < r.memories && r.Err == nil; i++ {
		r.pages, _ = r.limits()
	}
	if r.memories > 1 {
		r.refuse("it has several memories")
	}
}

func (r *rewriter) surveyGlobals() {
	first := r.globals
	r.globals += r.Count("globals")
	for i := first; i < r.globals && r.Err == nil; i++ {
		kind := r.valueType("a global")
		switch changes := r.Byte("a global"); {
		case changes > 1:
			r.Failf("a global of the unknown form 0x%02x stands", changes)
		case changes == 1 && kind < typeF64:
			r.refuse("it has a mutable global that is not a number")
		case changes == 1:
			r.mutable = append(r.mutable, mutable{uint32(i), kind})
		}
		r.expression()
	}
}

func (r *rewriter) surveyExports() {
	for range r.Count("exports") {
		r.exports[string(r.Bytes("the name of an export"))] = true
		switch kind := r.Byte("an export"); kind {
		case kindFunction:
			r.Index("function", r.functions())
		case kindTable, kindMemory:
			r.U32("an export")
		case kindGlobal:
			r.Index("global", r.globals)
		default:
			r.Failf("an export of the unknown kind %d stands", kind)
		}
		if r.Err != nil {
			return
		}
	}
}

func (r *rewriter) surveyStart() {
	r.start = r.Index("function", r.functions())
	own := int(r.start) - r.imported[kindFunction]
	switch {
	case r.Err != nil:
	case own < 0:
		r.refuse("its start function is imported")
	case r.types[r.defined[own]] != signature{}:
		r.Failf("a start function that takes or gives something is named")
	}
}

// dataSection reads the data segments (5.5.14), which the host writes instead of the engine.
func (r *rewriter) dataSection() {
	declared := -1
	if r.enter(secDataCount) {
		declared = int(r.U32("the number of segments"))
		r.leave(secDataCount)
	}
	n := 0
	if r.enter(secData) {
		n = r.Count("segments")
		for i := 0; i < n && r.Err == nil; i++ {
			r.segment()
		}
		r.leave(secData)
	}
	if declared >= 0 && declared != n {
		r.Failf("%d segments were declared, %d are there", declared, n)
	}
}

func (r *rewriter) segment() {
	offset, constant := uint32(0), false
	kind := r.U32("a segment")
	switch kind {
	case 0:
		offset, constant = r.offset()
	case 1:
		r.refuse(usesSegments)
	case 2:
		r.Index("memory", r.imported[kindMemory]+r.memories)
		offset, constant = r.offset()
	default:
		r.Failf("a segment of the unknown kind %d stands", kind)
	}
	b := r.Bytes("a segment")
	switch {
	case kind != 1 && !constant:
		r.refuse("the place of a segment of its data is computed")
	case uint64(offset)+uint64(len(b)) > uint64(r.pages)*pageBytes:
		r.refuse("a segment of its data is outside its memory")
	case len(b) > 0:
		r.m.Data = append(r.m.Data, Segment{Offset: offset, Bytes: b})
	}
}

// offset reads the offset of a segment and reports whether it is a constant.
func (r *rewriter) offset() (uint32, bool) {
	if r.More() && r.Module[r.At] == opI32Const {
		r.At++
		v := r.S32("the place of a segment")
		if r.More() && r.Module[r.At] == opEnd {
			r.At++
			return uint32(v), true
		}
	}
	r.expression()
	return 0, false
}
