package instrument

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// with returns a module with one function, a table, a memory of one page, and segments.
func with(instructions ...byte) module {
	return module{types: list{voids}, functions: list{{0}}, tables: list{{typeFuncRef, 0, 9}}, memories: onePage,
		elements: list{{1, 0, 1, 0}}, count: []byte{1}, bodies: list{function(instructions...)}, segments: list{{0, opI32Const, 0, opEnd, 1, 'x'}}}
}

// changed changes a module.
func changed(m module, change func(*module)) module {
	change(&m)
	return m
}

// TestRefusals has every reason why instances cannot be reused. In these cases the instantiation code stays in the
// module.
func TestRefusals(t *testing.T) {
	three := []byte{opI32Const, 0, opI32Const, 0, opI32Const, 0, opPrefixFC}
	nop := with(0x01)
	global := func(b ...byte) module { return changed(nop, func(m *module) { m.globals = list{b} }) }
	segment := func(b ...byte) module { return changed(nop, func(m *module) { m.segments = list{b} }) }
	imported := func(b ...byte) module {
		return changed(nop, func(m *module) { m.imports = list{cat(str("env"), str("x"), b)} })
	}
	many := bytes.Repeat([]byte{typeI32, 1, opI32Const, 0, opEnd}, MaxGlobals+1)
	var globals list
	for ; len(many) > 0; many = many[5:] {
		globals = append(globals, many[:5])
	}
	for name, c := range map[string]struct {
		m    module
		want string
	}{
		"table.set":   {with(opI32Const, 0, opRefNull, typeFuncRef, opTableSet, 0), changesTable},
		"table.grow":  {with(opRefNull, typeFuncRef, opI32Const, 0, opPrefixFC, fcTableGrow, 0, opDrop), changesTable},
		"table.fill":  {with(opI32Const, 0, opRefNull, typeFuncRef, opI32Const, 0, opPrefixFC, fcTableFill, 0), changesTable},
		"table.copy":  {with(cat(three, []byte{fcTableCopy, 0, 0})...), changesTable},
		"table.init":  {with(cat(three, []byte{fcTableInit, 0, 0})...), changesTable},
		"elem.drop":   {with(opPrefixFC, fcElemDrop, 0), changesTable},
		"memory.init": {with(cat(three, []byte{fcMemoryInit, 0, 0})...), usesSegments},
		"data.drop":   {with(opPrefixFC, fcDataDrop, 0), usesSegments},
		"passive":     {segment(1, 1, 'x'), usesSegments},
		"computed": {changed(segment(0, opGlobalGet, 0, opEnd, 1, 'x'), func(m *module) {
			m.imports = list{cat(str("env"), str("g"), []byte{kindGlobal, typeI32, 0})}
		}), "it imports a global"},
		"computed, own": {changed(segment(0, opGlobalGet, 0, opEnd, 1, 'x'), func(m *module) { m.globals = list{{typeI32, 0, opI32Const, 1, opEnd}} }),
			"the place of a segment of its data is computed"},
		"outside":         {segment(0, opI32Const, 0xff, 0xff, 3, opEnd, 2, 'x', 'y'), "a segment of its data is outside its memory"},
		"far outside":     {segment(0, opI32Const, 0x7f, opEnd, 2, 'x', 'y'), "a segment of its data is outside its memory"},
		"import global":   {imported(kindGlobal, typeI32, 1), "it imports a global"},
		"import table":    {imported(kindTable, typeFuncRef, 1, 0, 9), "it imports a table"},
		"import memory":   {changed(imported(kindMemory, 0, 1), func(m *module) { m.memories = nil }), "it imports a memory"},
		"vector":          {global(cat([]byte{typeV128, 1, opPrefixFD, fdConst}, make([]byte, 16), []byte{opEnd})...), "it has a mutable global that is not a number"},
		"reference":       {global(typeExternRef, 1, opRefNull, typeExternRef, opEnd), "it has a mutable global that is not a number"},
		"globals":         {changed(nop, func(m *module) { m.globals = globals }), "it has too many mutable globals"},
		"no memory":       {module{types: list{voids}}, "it has no memory"},
		"several":         {changed(nop, func(m *module) { m.memories = list{{0, 1}, {0, 1}} }), "it has several memories"},
		"imported start":  {changed(imported(kindFunction, 0), func(m *module) { m.start = []byte{0} }), "its start function is imported"},
		"the first stays": {with(cat(three, []byte{fcMemoryInit, 0, 0}, three, []byte{fcTableCopy, 0, 0})...), usesSegments},
	} {
		for _, o := range options {
			if o.Fuel {
				c.m.start = []byte{byte(len(c.m.imports))}
				if name == "imported start" || name == "no memory" || name[:3] == "imp" || name == "computed" {
					c.m.start = map[bool][]byte{true: {0}}[name == "imported start"]
				}
			}
			r, err := Rewrite(c.m.bytes(), o)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if r.Refusal != c.want || r.Data != nil || r.Globals != nil || r.Start != "" {
				t.Errorf("%s: %.300v, want %s", name, r, c.want)
			}
			var s rewriter
			s.Module, s.End = r.Wasm, len(r.Wasm)
			s.split()
			if s.present(secData) != (c.m.segments != nil) || s.present(secDataCount) != (c.m.count != nil) || s.present(secStart) != (c.m.start != nil) {
				t.Errorf("%s: sections are missing", name)
			}
			rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2))
			_, before := rt.CompileModule(ctx, c.m.bytes())
			if _, err := rt.CompileModule(ctx, r.Wasm); (err == nil) != (before == nil) || err != nil && name != "several" && name != "computed, own" {
				t.Errorf("%s: %v, before: %v", name, err, before)
			}
			_ = rt.Close(ctx)
		}
	}
}

const huge = "\xff\xff\xff\xff\x0f"

// broken lists malformed modules with a part of the error.
func broken() map[string]struct {
	wasm []byte
	want string
} {
	type c = struct {
		wasm []byte
		want string
	}
	nop := with(0x01)
	section := func(id byte, b ...byte) []byte { return cat([]byte(header), sec(id, b)) }
	change := func(change func(*module)) []byte { return changed(nop, change).bytes() }
	body := func(b ...byte) []byte { return with(b...).bytes() }
	return map[string]c{
		"empty":           {nil, "no header"},
		"version":         {[]byte("\x00asm\x0d\x00\x01\x00"), "no header"},
		"unknown section": {section(13), "the unknown section 13"},
		"section cut":     {[]byte(header + "\x01\x05\x00"), "the type section is cut off"},
		"size cut":        {[]byte(header + "\x01\x85"), "is cut off"},
		"size":            {[]byte(header + "\x01" + huge), "is cut off"},
		"size too long":   {[]byte(header + "\x01\xff\xff\xff\xff\x1f"), "more than 32 bits"},
		"twice":           {cat(section(secType, 0), sec(secType, []byte{0})), "the type section, which is out of order"},
		"order":           {cat(section(secFunction, 0), sec(secType, []byte{0})), "out of order"},
		"left over":       {section(secType, 0, 0), "1 bytes of the type section are left over"},
		"types":           {section(secType, 5, 0), "5 types are declared, 1 bytes are left"},
		"type":            {section(secType, 1, 0x5f), "unknown form 0x5f"},
		"import kind":     {section(secImport, 1, 0, 0, 4), "unknown kind 4"},
		"import type":     {section(secImport, 1, 0, 0, 0, 0), "the type 0 of 0"},
		"limits":          {section(secMemory, 1, 2, 0), "unknown form 0x02"},
		"function":        {section(secFunction, 1, 0), "the type 0 of 0"},
		"global type":     {section(secGlobal, 1, 0x40, 0), "unknown type 0x40"},
		"global form":     {section(secGlobal, 1, 0x7f, 2), "unknown form 0x02"},
		"global cut":      {section(secGlobal, 1, 0x7f, 0, opI32Const, 1), "a constant expression is cut off"},
		"not constant":    {section(secGlobal, 1, 0x7f, 0, opLocalGet, 0, opEnd), "0x20 is not constant"},
		"vector":          {section(secGlobal, 1, 0x7b, 0, opPrefixFD, 17, opEnd), "0xfd 17 is not constant"},
		"export kind":     {section(secExport, 1, 0, 4, 0), "unknown kind 4"},
		"export function": {section(secExport, 1, 0, 0, 0), "function 0 of 0"},
		"export global":   {section(secExport, 1, 0, 3, 0), "global 0 of 0"},
		"start":           {section(secStart, 0), "function 0 of 0"},
		"start type":      {change(func(m *module) { m.types, m.start = list{{formFunction, 1, typeI32, 0}}, []byte{0} }), "takes or gives"},
		"segment far":     {change(func(m *module) { m.segments = list{{0, opI32Const, 0xff, 0xff, 0xff, 0xff, 0x0f, opEnd, 0}} }), "more than 32 bits"},
		"elements":        {change(func(m *module) { m.elements = list{{8}} }), "unknown kind 8"},
		"element":         {change(func(m *module) { m.elements = list{{1, 0, 1, 1}} }), "function 1 of 1"},
		"elements left":   {change(func(m *module) { m.elements = list{{1, 0, 1, 0, 0}} }), "left over"},
		"no code":         {change(func(m *module) { m.bodies = nil }), "1 functions have no code"},
		"bodies":          {change(func(m *module) { m.bodies = list{empty, empty} }), "1 functions have 2 bodies"},
		"body cut":        {change(func(m *module) { m.bodies = list{{50, 0, opEnd}} }), "a body of 50 bytes is cut off"},
		"body left over":  {body(opEnd), "1 bytes of a body are left over"},
		"no end":          {change(func(m *module) { m.bodies = list{{2, 0, 0x01}} }), "a body is cut off"},
		"locals":          {change(func(m *module) { m.bodies = list{sized([]byte{1}, []byte(huge), []byte{typeI32, opEnd})} }), "4294967295 locals"},
		"unknown":         {body(0x06, 0x40), "the unknown instruction 0x06"},
		"tail call":       {body(0x12, 0), "0x12"},
		"fc":              {body(opPrefixFC, 18), "0xfc 18"},
		"relaxed":         {body(opPrefixFD, 0x80, 0x02), "0xfd 256"},
		"local":           {body(opLocalGet, 0), "local 0 of 0"},
		"global":          {body(opGlobalGet, 0), "global 0 of 0"},
		"call":            {body(opCall, 1), "function 1 of 1"},
		"call type":       {body(opCallIndirect, 1, 0), "type 1 of 1"},
		"block type":      {body(opBlock, 1, opEnd), "type 1 of 1"},
		"block ref":       {body(opBlock, 0x63, 0, opEnd), "a block of the unknown type 0x63"},
		"loop ref":        {body(opLoop, 0x64, 0, opEnd), "a block of the unknown type 0x64"},
		"block exn":       {body(opBlock, 0x69, opEnd), "a block of the unknown type 0x69"},
		"block long ref":  {body(opBlock, 0xe3, 0x7f, 0, opEnd), "type 16355 of 1"},
		"select ref":      {body(opSelectTyped, 1, 0x63, 0), "one of the types of the unknown type 0x63"},
		"null ref":        {body(opRefNull, 0), "a null of the unknown type 0x00"},
		"local ref":       {change(func(m *module) { m.bodies = list{{5, 1, 1, 0x63, 0, opEnd}} }), "a local of the unknown type 0x63"},
		"parameter ref":   {section(secType, 1, formFunction, 1, 0x64, 0, 0), "one of the parameters of the unknown type 0x64"},
		"table ref":       {section(secImport, 1, 0, 0, 1, 0x63, 0, 0, 0), "a table of the unknown type 0x63"},
		"label":           {body(opBr, 1), "label 1 of 1"},
		"constant":        {body(opI32Const, 0x80, 0x80, 0x80, 0x80, 0x80, 0), "more than 32 bits"},
		"segment kind":    {change(func(m *module) { m.segments = list{{3, 0}} }), "unknown kind 3"},
		"segment memory":  {change(func(m *module) { m.segments = list{{2, 1, opI32Const, 0, opEnd, 0}} }), "memory 1 of 1"},
		"segment place":   {change(func(m *module) { m.segments = list{{0, opI32Const, 0x80, 0x80, 0x80, 0x80, 0x80, 0, opEnd, 0}} }), "more than 32 bits"},
		"segment cut":     {change(func(m *module) { m.segments = list{{0, opI32Const, 0, opEnd, 9}} }), "a segment is cut off"},
		"segment count":   {change(func(m *module) { m.count = []byte{2} }), "2 segments were declared, 1 are there"},
		"segments left":   {change(func(m *module) { m.segments = list{{0, opI32Const, 0, opEnd, 0, 0}} }), "left over"},
	}
}

func TestBroken(t *testing.T) {
	for name, c := range broken() {
		m, err := Rewrite(c.wasm, Options{Fuel: true})
		if err == nil || m != nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "rewrite: ") || !strings.Contains(err.Error(), " at byte ") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestTruncated cuts a module at every byte: there is an error, unless only sections at the end are missing.
func TestTruncated(t *testing.T) {
	wasm := randomModule(3, false)
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer rt.Close(ctx)
	for n := range wasm {
		m, err := Rewrite(wasm[:n], Options{Fuel: true})
		if err == nil {
			if _, err := rt.CompileModule(ctx, m.Wasm); err != nil {
				t.Errorf("cut at %d: %v", n, err)
			}
		}
	}
}

// TestNames omits a malformed name section.
func TestNames(t *testing.T) {
	for name, c := range map[string]struct{ section, want []byte }{
		"cut":        {cat(str("name"), []byte{1, 9, 1}), nil},
		"left over":  {cat(str("name"), []byte{1}, sized(vec(), []byte{0})), nil},
		"names cut":  {cat(str("name"), []byte{1}, sized([]byte{2, 0})), nil},
		"module cut": {cat(str("name"), []byte{0}, sized([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})), nil},
		"module on":  {cat(str("name"), []byte{0}, sized(str("m"), []byte{0})), nil},
		"module":     {cat(str("name"), []byte{0}, sized(str("m"))), cat(str("name"), []byte{0}, sized(str("m")))},
		"other":      {str("nam"), nil},
		"empty":      {str("name"), str("name")},
		"unknown":    {cat(str("name"), []byte{7, 1, 0}), str("name")},
		"name cut":   {[]byte{9, 'n'}, nil},
		"well-known": {cat(str("name"), []byte{1}, sized(vec(cat([]byte{0}, str("f"))))), cat(str("name"), []byte{1}, sized(vec(cat([]byte{1}, str("f")))))},
	} {
		m := with(0x01)
		want, err := Rewrite(m.bytes(), Options{Fuel: true})
		if err != nil {
			t.Fatal(err)
		}
		m.tail = list{sec(secCustom, c.section), sec(secCustom, str("name"), []byte("a second one counts no more"))}
		if c.want == nil {
			m.tail = m.tail[:1]
		} else {
			want.Wasm = cat(want.Wasm, sec(secCustom, c.want))
		}
		if got, err := Rewrite(m.bytes(), Options{Fuel: true}); err != nil || !bytes.Equal(got.Wasm, want.Wasm) {
			t.Errorf("%s: %x, %v, want %x", name, got.Wasm, err, want.Wasm)
		}
	}
}
