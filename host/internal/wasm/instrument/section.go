package instrument

import "github.com/wfhost/wfhost/host/internal/wasm"

// write writes all sections in order. The code has been rewritten before, because the other sections depend on it.
func (r *rewriter) write(code []byte) {
	r.out = append(r.out, header...)
	for _, id := range sectionOrder {
		if r.Err != nil {
			return
		}
		switch id {
		case secCode:
			if r.present(id) {
				r.out = wasm.AppendU32(append(r.out, id), uint32(len(code)))
				r.out = append(r.out, code...)
			}
		case secStart, secDataCount, secData:
			if r.m.Refusal != "" {
				r.section(id)
			}
		default:
			r.section(id)
		}
	}
	r.nameSection()
}

// added returns the number of elements that are appended to a section.
func (r *rewriter) added(id byte) int {
	n := 0
	if id == secExport {
		n = len(r.m.Globals)
		if r.m.Start != "" {
			n++
		}
	}
	if r.fuel && (id == secImport || id == secGlobal || id == secExport || id == secType && r.nullary == len(r.types)) {
		n++
	}
	return n
}

// section copies a section with its changes.
func (r *rewriter) section(id byte) {
	added := r.added(id)
	present := r.enter(id)
	if !present && added == 0 {
		return
	}
	r.out = append(r.out, id)
	start := len(r.out)
	switch id {
	case secStart:
		r.shiftIndex()
	case secDataCount:
	default:
		n := 0
		if present {
			n = r.Count(sectionNames[id])
		}
		r.out = wasm.AppendU32(r.out, uint32(n+added))
		r.mark = r.At
		r.items(id, n)
	}
	if present {
		r.flush(r.End)
	}
	r.add(id)
	r.size(start)
}

// items reads the elements of a section that can refer to functions, and shifts their indexes. It also bounds tables.
func (r *rewriter) items(id byte, n int) {
	if id == secTable && r.elements > 0 {
		for i := 0; i < n && r.Err == nil; i++ {
			r.boundTable()
		}
	}
	if !r.fuel {
		return
	}
	for i := 0; i < n && r.Err == nil; i++ {
		switch id {
		case secGlobal:
			r.Skip(2, "a global")
			r.expression()
		case secExport:
			r.Bytes("the name of an export")
			if r.Byte("an export") == kindFunction {
				r.shiftIndex()
			} else {
				r.U32("an export")
			}
		case secElement:
			r.element()
		default:
			return
		}
	}
	if id == secElement {
		r.leave(id)
	}
}

// limitsWithMaximum is the flag of limits with a maximum.
const limitsWithMaximum = 1

// boundTable copies a table (5.5.7) and sets its maximum.
func (r *rewriter) boundTable() {
	r.valueType("a table")
	r.flush(r.At)
	low, high := r.limits()
	r.out = wasm.AppendU32(append(r.out, limitsWithMaximum), low)
	r.out = wasm.AppendU32(r.out, min(high, max(low, r.elements)))
	r.mark = r.At
}

// Bits of the kind of an element segment (5.5.12).
const (
	elementPassive     = 1
	elementExplicit    = 2 // names its table; with passive: declarative
	elementExpressions = 4
	elementKinds       = 8
)

func (r *rewriter) element() {
	const what = "elements"
	kind := r.U32(what)
	if kind >= elementKinds {
		r.Failf("elements of the unknown kind %d stand", kind)
		return
	}
	if kind&elementPassive == 0 {
		if kind&elementExplicit != 0 {
			r.U32(what)
		}
		r.expression()
	}
	if kind&(elementPassive|elementExplicit) != 0 {
		r.Byte(what)
	}
	n := r.Count(what)
	for r.m.References += n; n > 0 && r.Err == nil; n-- {
		if kind&elementExpressions != 0 {
			r.expression()
		} else {
			r.shiftIndex()
		}
	}
}

// add writes the elements that are appended to a section.
func (r *rewriter) add(id byte) {
	switch {
	case id == secExport:
		for i, g := range r.m.Globals {
			r.exported(g.Export, kindGlobal, r.mutable[i].index)
		}
		if r.m.Start != "" {
			r.exported(r.m.Start, kindFunction, r.shift(r.start))
		}
		if r.fuel {
			r.exported(r.m.Fuel, kindGlobal, uint32(r.globals))
		}
	case r.added(id) == 0:
	case id == secType:
		r.out = append(r.out, formFunction, 0, 0)
	case id == secImport:
		r.out = wasm.AppendText(wasm.AppendText(r.out, ImportModule), ImportRefuel)
		r.out = wasm.AppendU32(append(r.out, kindFunction), uint32(r.nullary))
	case id == secGlobal:
		r.out = append(r.out, typeI64, 1, opI64Const, 0, opEnd)
	}
}

func (r *rewriter) exported(name string, kind byte, index uint32) {
	r.out = wasm.AppendU32(append(wasm.AppendText(r.out, name), kind), index)
}

// Subsections of the name section (7.4.1).
const (
	namesModule    = 0
	namesFunctions = 1
)

// nameSection writes the names of the module and of its functions. It drops a malformed name section.
func (r *rewriter) nameSection() {
	if r.names.to == 0 || r.Err != nil {
		return
	}
	before := len(r.out)
	r.out = append(r.out, secCustom)
	start := len(r.out)
	r.out = wasm.AppendText(r.out, nameSection)
	r.At, r.End = r.names.from, r.names.to
	for r.More() {
		id := r.Byte("names")
		from := r.At
		content := r.Bytes("names")
		switch {
		case r.Err != nil:
		case id == namesModule:
			if !isName(content) {
				r.Failf("the name of the module ends")
			}
			r.out = append(append(r.out, id), r.Module[from:r.At]...)
		case id == namesFunctions:
			r.out = append(r.out, id)
			r.functionNames(span{r.At - len(content), r.At})
		}
	}
	if r.Err != nil {
		r.out, r.Err = r.out[:before], nil
		return
	}
	r.size(start)
}

// isName reports whether content is a well-formed name. The module's name is copied unchanged, and wazero allocates
// the length that a name claims.
func isName(content []byte) bool {
	c := wasm.Reader{Module: content, End: len(content)}
	c.Bytes("a name")
	return c.Err == nil && !c.More()
}

func (r *rewriter) functionNames(s span) {
	end, start := r.End, len(r.out)
	r.At, r.End = s.from, s.to
	n := r.Count("names")
	r.out = wasm.AppendU32(r.out, uint32(n))
	for i := 0; i < n && r.Err == nil; i++ {
		r.out = wasm.AppendU32(r.out, r.shift(r.U32("names")))
		r.out = wasm.AppendText(r.out, string(r.Bytes("names")))
	}
	if r.At != r.End {
		r.Failf("%d bytes of names are left over", r.End-r.At)
	}
	r.End = end
	r.size(start)
}
