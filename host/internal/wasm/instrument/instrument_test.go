package instrument

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/wfhost/wfhost/host/internal/wasm"
)

// module is a small module, section by section. Sections that are nil are omitted.
type module struct {
	types, imports, functions, tables, memories, globals, exports [][]byte

	start                  []byte
	elements               [][]byte
	count                  []byte
	bodies, segments, tail [][]byte
}

func (m module) bytes() []byte {
	b := []byte(header)
	for _, s := range []struct {
		id    byte
		items [][]byte
	}{
		{secType, m.types}, {secImport, m.imports}, {secFunction, m.functions}, {secTable, m.tables}, {secMemory, m.memories},
		{secGlobal, m.globals}, {secExport, m.exports}, {secStart, [][]byte{m.start}}, {secElement, m.elements},
		{secDataCount, [][]byte{m.count}}, {secCode, m.bodies}, {secData, m.segments},
	} {
		switch {
		case s.items == nil || s.items[0] == nil:
		case s.id == secStart || s.id == secDataCount:
			b = cat(b, sec(s.id, s.items[0]))
		default:
			b = cat(b, sec(s.id, vec(s.items...)))
		}
	}
	return cat(b, cat(m.tail...))
}

type list = [][]byte

var (
	voids   = []byte{formFunction, 0, 0}
	onePage = list{{0, 1}}
	empty   = sized([]byte{0, opEnd})
)

// function gives a body without locals.
func function(instructions ...byte) []byte { return sized([]byte{0}, instructions, []byte{opEnd}) }

// paid returns the instructions that charge a function with calls or loops; spent returns those for other functions,
// and for a region.
func paid(counter, refuel byte, cost int64) []byte {
	return cat(spent(counter, cost), looked(counter, refuel))
}

func spent(counter byte, cost int64) []byte {
	return cat([]byte{opGlobalGet, counter}, constant(cost), []byte{opI64Sub, opGlobalSet, counter})
}

// looked returns the instructions that check whether fuel is left.
func looked(counter, refuel byte) []byte {
	return []byte{opGlobalGet, counter, opI64Const, 0, opI64LtS, opIf, blockEmpty, opCall, refuel, opEnd}
}

func constant(v int64) []byte { return wasm.AppendS64([]byte{opI64Const}, v) }

// costs sums up what instructions cost.
func costs(ops ...byte) (n int64) {
	for _, op := range ops {
		n += Cost(op)
	}
	return n
}

// entered is the cost of entering a function, at least 1.
func entered(ops ...byte) int64 { return max(costs(ops...), 1) }

var (
	refuelImport = cat(str("wfhost"), str("refuel"), []byte{kindFunction, 0})
	fuelGlobal   = []byte{typeI64, 1, opI64Const, 0, opEnd}
)

func fuelExport(name string, counter byte) []byte { return cat(str(name), []byte{kindGlobal, counter}) }

// checked rewrites a module and compares the whole result.
func checked(t *testing.T, o Options, m module, want module, rest Module) {
	t.Helper()
	got, err := Rewrite(m.bytes(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Wasm, want.bytes()) {
		t.Errorf("\n%x, want\n%x", got.Wasm, want.bytes())
	}
	if got.Fuel != rest.Fuel || got.Start != rest.Start || got.Refusal != rest.Refusal || !slices.Equal(got.Globals, rest.Globals) ||
		!slices.EqualFunc(got.Data, rest.Data, func(a, b Segment) bool { return a.Offset == b.Offset && bytes.Equal(a.Bytes, b.Bytes) }) {
		t.Errorf("%+v, want %+v", got, rest)
	}
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer rt.Close(ctx)
	for name, wasm := range map[string][]byte{"before": m.bytes(), "after": got.Wasm} {
		if _, err := rt.CompileModule(ctx, wasm); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// recyclable has everything that is removed, and names that are already in use.
var recyclable = module{
	types: list{voids}, functions: list{{0}, {0}}, memories: onePage,
	globals:  list{{typeI32, 0, opI32Const, 1, opEnd}, {typeI32, 1, opI32Const, 1, opEnd}, {typeF64, 1, opF64Const, 0, 0, 0, 0, 0, 0, 0, 0, opEnd}},
	exports:  list{cat(str("wfhost:g1"), []byte{kindFunction, 0}), cat(str("wfhost:start"), []byte{kindFunction, 1}), cat(str("wfhost:fuel"), []byte{kindMemory, 0})},
	start:    []byte{1},
	count:    []byte{2},
	bodies:   list{function(0x01, 0x01), function()},
	segments: list{{0, opI32Const, 3, opEnd, 2, 'a', 'b'}, {2, 0, opI32Const, 4, opEnd, 1, 'c'}},
	tail: list{sec(secCustom, str("producers"), []byte("x")),
		sec(secCustom, str("name"), []byte{0}, sized(str("m")), []byte{1}, sized(vec(cat([]byte{1}, str("f")))), []byte{2}, sized(vec()))},
}

func TestRecyclable(t *testing.T) {
	want := recyclable
	want.start, want.count, want.segments = nil, nil, nil
	want.exports = append(slices.Clone(want.exports), fuelExport("wfhost:g1_", 1), fuelExport("wfhost:g2", 2), cat(str("wfhost:start_"), []byte{kindFunction, 1}))
	want.tail = list{sec(secCustom, str("name"), []byte{0}, sized(str("m")), []byte{1}, sized(vec(cat([]byte{1}, str("f")))))}
	rest := Module{Start: "wfhost:start_", Globals: []Global{{"wfhost:g1_", typeI32}, {"wfhost:g2", typeF64}}, Data: []Segment{{3, []byte("ab")}, {4, []byte("c")}}}
	checked(t, Options{}, recyclable, want, rest)

	want.imports = list{refuelImport}
	want.globals = append(slices.Clone(want.globals), fuelGlobal)
	want.exports = list{cat(str("wfhost:g1"), []byte{kindFunction, 1}), cat(str("wfhost:start"), []byte{kindFunction, 2}), recyclable.exports[2],
		want.exports[3], want.exports[4], cat(str("wfhost:start_"), []byte{kindFunction, 2}), fuelExport("wfhost:fuel_", 3)}
	want.bodies = list{function(cat(spent(3, entered(0x01, 0x01)), []byte{0x01, 0x01})...), function(spent(3, 1)...)}
	want.tail = list{sec(secCustom, str("name"), []byte{0}, sized(str("m")), []byte{1}, sized(vec(cat([]byte{2}, str("f")))))}
	rest.Fuel = "wfhost:fuel_"
	checked(t, Options{Fuel: true}, recyclable, want, rest)
}

// TestIndexes shifts function indices everywhere: in all kinds of elements, in constants, calls and the start
// section.
func TestIndexes(t *testing.T) {
	f := cat(str("env"), str("f"), []byte{kindFunction, 0})
	g := cat(str("env"), str("g"), []byte{kindGlobal, typeI32, 0})
	build := func(own, last byte, extra func(*module)) module {
		m := module{
			types: list{{formFunction, 0, 1, typeI32}}, imports: list{f, g}, functions: list{{0}, {1}}, tables: list{{typeFuncRef, 0, 9}},
			globals: list{{typeFuncRef, 0, opRefFunc, own, opEnd}, {typeI32, 0, opGlobalGet, 0, opEnd},
				cat([]byte{typeV128, 0, opPrefixFD, fdConst}, make([]byte, 16), []byte{opEnd})},
			exports: list{cat(str("a"), []byte{kindFunction, 0}), cat(str("b"), []byte{kindFunction, own})},
			start:   []byte{last},
			elements: list{{0, opI32Const, 0, opEnd, 2, 0, own}, {1, 0, 1, own}, {2, 0, opGlobalGet, 0, opEnd, 0, 1, own}, {3, 0, 1, own},
				{4, opI32Const, 0, opEnd, 1, opRefFunc, own, opEnd}, {5, typeFuncRef, 1, opRefNull, typeFuncRef, opEnd},
				{6, 0, opI32Const, 0, opEnd, typeFuncRef, 1, opRefFunc, own, opEnd}, {7, typeFuncRef, 1, opRefFunc, own, opEnd}},
		}
		extra(&m)
		return m
	}
	calls := func(own, last byte) []byte {
		return []byte{opCall, 0, opCall, own, opDrop, opDrop, opCall, last, opRefFunc, own, opDrop}
	}
	m := build(1, 2, func(m *module) {
		m.types = append(m.types, voids)
		m.bodies = list{function(opI32Const, 7), function(calls(1, 2)...)}
	})
	want := build(2, 3, func(m *module) {
		m.types = append(m.types, voids)
		m.imports = append(m.imports, cat(str("wfhost"), str("refuel"), []byte{kindFunction, 1}))
		m.globals = append(m.globals, fuelGlobal)
		m.exports = append(m.exports, fuelExport("wfhost:fuel", 4))
		reference := calls(2, 3)
		at := bytes.IndexByte(reference, opRefFunc)
		m.bodies = list{function(cat(spent(4, entered(opI32Const)), []byte{opI32Const, 7})...),
			function(cat(paid(4, 1, costs(opCall, opCall, opDrop, opDrop, opCall, opRefFunc, opDrop)), reference[:at],
				paid(4, 1, referenceCost), reference[at:])...)}
	})
	checked(t, Options{Fuel: true}, m, want, Module{Fuel: "wfhost:fuel", Refusal: "it imports a global"})
	checked(t, Options{}, m, m, Module{Refusal: "it imports a global"})
}

// TestNothing rewrites a module without anything.
func TestNothing(t *testing.T) {
	checked(t, Options{}, module{}, module{}, Module{Refusal: "it has no memory"})
	checked(t, Options{Fuel: true}, module{}, module{types: list{voids}, imports: list{refuelImport}, globals: list{fuelGlobal}, exports: list{fuelExport("wfhost:fuel", 0)}},
		Module{Fuel: "wfhost:fuel", Refusal: "it has no memory"})
}

// TestBulk charges for moved bytes before the instruction, and for growth after it.
func TestBulk(t *testing.T) {
	build := func(locals []byte, instructions ...byte) module {
		return module{types: list{voids}, functions: list{{0}}, memories: onePage, bodies: list{sized(locals, instructions, []byte{opEnd})}}
	}
	m := build([]byte{0}, opI32Const, 1, opI32Const, 2, opI32Const, 3, opPrefixFC, fcMemoryFill, 0, opI32Const, 1, opMemoryGrow, 0, opDrop)
	pay := func(scale, op byte) []byte {
		return []byte{opGlobalGet, 0, opLocalGet, 0, opI64ExtendU, opI64Const, scale, op, opI64Sub, opGlobalSet, 0, opGlobalGet, 0, opI64Const, 0,
			opI64LtS, opIf, blockEmpty, opCall, 0, opEnd}
	}
	all := 4*costs(opI32Const) + CostFC(fcMemoryFill) + costs(opMemoryGrow, opDrop)
	want := build([]byte{1, 2, typeI32}, cat(paid(0, 0, all), []byte{opI32Const, 1, opI32Const, 2, opI32Const, 3, opLocalTee, 0}, pay(0, opI64Shl),
		[]byte{opPrefixFC, fcMemoryFill, 0, opI32Const, 1, opLocalTee, 0, opMemoryGrow, 0, opLocalTee, 1, opI32Const, 0x7f, opI32Ne, opIf, blockEmpty},
		pay(16, opI64Shl), []byte{opElse}, paid(0, 0, deniedCost), []byte{opCall, 0, opEnd, opLocalGet, 1, opDrop})...)
	want.imports, want.globals, want.exports = list{refuelImport}, list{fuelGlobal}, list{fuelExport("wfhost:fuel", 0)}
	checked(t, Options{Fuel: true}, m, want, Module{Fuel: "wfhost:fuel"})
}

// TestNaN makes NaNs canonical where they are observable, in locals between the ones for bulk instructions and the
// counter.
func TestNaN(t *testing.T) {
	build := func(locals []byte, body ...byte) module {
		return module{types: list{{formFunction, 1, typeF64, 0}}, functions: list{{0}}, memories: onePage, bodies: list{sized(locals, body, []byte{opEnd})}}
	}
	grow := []byte{opI32Const, 1, opMemoryGrow, 0, opDrop}
	sum := func(canonical ...byte) []byte { // the sum of the parameter with itself, twice, and with its sign
		return cat([]byte{opLocalGet, 0, opLocalGet, 0, 0xa0, opLocalGet, 0, 0xa0}, canonical, []byte{opLocalGet, 0, 0xa6, opDrop})
	}
	m := build([]byte{0}, cat(sum(), []byte{opLoop, blockEmpty, opEnd}, grow)...)
	got, err := Rewrite(m.bytes(), Options{Fuel: true, NaN: true})
	if err != nil {
		t.Fatal(err)
	}
	locals := []byte{3, 2, typeI32, 1, typeF64, 1, typeI64}
	canonical := wasm.F64.Append(nil, []byte{3})
	if !bytes.Contains(got.Wasm, locals) || !bytes.Contains(got.Wasm, sum(canonical...)) || bytes.Count(got.Wasm, canonical) != 1 {
		t.Errorf("%x", got.Wasm)
	}
	if without, err := Rewrite(m.bytes(), Options{NaN: true}); err != nil || !bytes.Contains(without.Wasm, sum()) {
		t.Errorf("without fuel: %v", err)
	}
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer rt.Close(ctx)
	if _, err := rt.CompileModule(ctx, got.Wasm); err != nil {
		t.Error(err)
	}
}

// TestWrapped checks the code of wrapped loops, as documented at wrap, with branches to all places.
func TestWrapped(t *testing.T) {
	build := func(locals []byte, body ...byte) module {
		return module{types: list{voids}, functions: list{{0}}, memories: onePage, bodies: list{sized(locals, body, []byte{opEnd})}}
	}
	inner := func(loop, outside byte) []byte { return []byte{opI32Const, 0, opBrTable, 2, loop, outside, outside} }
	m := build([]byte{0}, cat([]byte{opBlock, blockEmpty, opLoop, blockEmpty}, inner(0, 1), []byte{opEnd, opEnd})...)
	turn := costs(opI32Const, opBrTable)
	want := build([]byte{1, 1, typeI64}, cat(spent(0, entered(opBlock, opLoop)), []byte{opBlock, blockEmpty, opGlobalGet, 0, opLocalSet, 0,
		opLoop, blockEmpty, opLocalGet, 0, opI64Const, 0, opI64LtS, opIf, blockEmpty, opCall, 0, opGlobalGet, 0, opLocalTee, 0, opI64Const, 0, opI64LtS,
		opIf, blockEmpty, opUnreachable, opEnd, opEnd,
		opLoop, blockEmpty, opLocalGet, 0, opI64Const, 0, opI64GeS, opIf, blockEmpty, opLocalGet, 0}, constant(turn),
		[]byte{opI64Sub, opLocalTee, 0, opGlobalSet, 0},
		inner(1, 3), []byte{opElse, opBr, 2, opEnd, opEnd, opEnd, opEnd})...)
	want.imports, want.globals, want.exports = list{refuelImport}, list{fuelGlobal}, list{fuelExport("wfhost:fuel", 0)}
	checked(t, Options{Fuel: true}, m, want, Module{Fuel: "wfhost:fuel"})
}

// TestCost charges for what is executed, and for what is folded into it.
func TestCost(t *testing.T) {
	step := []byte{opLocalGet, 0, 0x45, opDrop}
	page := []byte{opI32Const, 1, opMemoryGrow, 0, opDrop}
	grown := costs(opI32Const, opMemoryGrow, opDrop)
	down := []byte{opLocalGet, 0, opI32Const, 1, 0x6b, opLocalTee, 0} // counts down
	counted := costs(opLocalGet, opI32Const, 0x6b, opLocalTee)
	long := bytes.Repeat(step, 100) // is not folded
	all := 100 * costs(0x45)
	fold := costs(opI32Const, opIf)
	for name, c := range map[string]struct {
		body []byte
		want int64
	}{
		"nothing": {nil, 1},
		"three":   {[]byte{opLocalGet, 0, opDrop, opLocalGet, 0, 0x45, opDrop}, costs(0x45)},
		"loop":    {cat([]byte{opLoop, blockEmpty}, down, []byte{opBrIf, 0, opEnd}), entered(opLoop) + 10*(counted+costs(opBrIf))},
		// A br_table with three targets: back, out, back.
		"ways": {cat([]byte{opLoop, blockEmpty}, down, []byte{0x45, opBrTable, 3, 0, 1, 0, 1, opEnd}),
			entered(opLoop) + 10*(counted+costs(0x45, opBrTable))},
		// A call of the same type as refuel inside: the other form of loops; then a nop.
		"called": {cat([]byte{opLoop, blockEmpty, opCall, 0}, down, []byte{opBrIf, 0, opEnd, 0x01}),
			entered(opLoop, 0x01) + 10*(costs(opCall)+counted+costs(opBrIf))},
		// A short branch is also charged if it is not taken; a long one is not.
		"if, short":       {[]byte{opI32Const, 0, opIf, blockEmpty, 0x01, opElse, 0x01, opEnd}, fold + 2*costs(0x01)},
		"if, long":        {cat([]byte{opI32Const, 0, opIf, blockEmpty}, long, []byte{opElse, 0x01, opEnd}), fold + costs(0x01)},
		"if, long, so":    {cat([]byte{opI32Const, 1, opIf, blockEmpty}, long, []byte{opElse, 0x01, opEnd, 0x01}), fold + all + 2*costs(0x01)},
		"else, long":      {cat([]byte{opI32Const, 0, opIf, blockEmpty, opElse}, long, []byte{opEnd}), fold + all},
		"br_if, long":     {cat([]byte{opI32Const, 1, opBrIf, 0}, long), costs(opI32Const, opBrIf)},
		"br_if, long, no": {cat([]byte{opI32Const, 0, opBrIf, 0}, long), costs(opI32Const, opBrIf) + all},
		"block, left": {cat([]byte{opBlock, blockEmpty, opI32Const, 1, opBrIf, 0}, long, []byte{opEnd, 0x01}),
			costs(opBlock, opI32Const, opBrIf, 0x01)},
		// The code after a block that can be left early is a separate region, and so is each target of a br_table.
		"cases": {cat([]byte{opBlock, blockEmpty, opBlock, blockEmpty, opBlock, blockEmpty, opI32Const, 1, opBrTable, 2, 0, 1, 2, opEnd}, long,
			[]byte{opBr, 1, opEnd}, long, long, []byte{opEnd, 0x01}), costs(opBlock, opBlock, opBlock, opI32Const, opBrTable, 0x01) + 2*all},
		"return":    {cat([]byte{opReturn}, long), costs(opReturn)},
		"after all": {cat([]byte{opLoop, blockEmpty}, down, []byte{opBrIf, 0, 0x01, opEnd}), entered(opLoop, 0x01) + 10*(counted+costs(opBrIf))},
		// Two loops: 10 + 9 + ... + 1 iterations of the inner one.
		"nested": {cat([]byte{opLoop, blockEmpty, opLocalGet, 0, 0x21, 1, opLoop, blockEmpty, opLocalGet, 1, opI32Const, 1, 0x6b, opLocalTee, 1, opBrIf, 0, opEnd},
			down, []byte{opBrIf, 0, opEnd}), entered(opLoop) + 10*(costs(opLocalGet, 0x21, opLoop)+counted+costs(opBrIf)) + 55*(counted+costs(opBrIf))},
		// More loops than are wrapped. Each is the first instruction of the enclosing one.
		"deep": {cat(bytes.Repeat([]byte{opLoop, blockEmpty}, maxWrapped/3+100), []byte{0x01}, bytes.Repeat([]byte{opEnd}, maxWrapped/3+100)),
			maxWrapped/3 + 101},
		"fill":        {[]byte{opI32Const, 0, opI32Const, 0, opI32Const, 0x80, 0x08, opPrefixFC, fcMemoryFill, 0}, 3*costs(opI32Const) + CostFC(fcMemoryFill) + 1024/64*Ticks},
		"copy":        {[]byte{opI32Const, 0, opI32Const, 0, opI32Const, 3, opPrefixFC, fcMemoryCopy, 0, 0}, 3*costs(opI32Const) + CostFC(fcMemoryCopy) + 3},
		"grow":        {page, grown + 1024*Ticks},
		"grow beyond": {[]byte{opI32Const, 0x80, 0x80, 4, opMemoryGrow, 0, opDrop}, grown + deniedCost},
		"grow, loop":  {cat(page, []byte{opLoop, blockEmpty}, page, []byte{opEnd}), 2*grown + costs(opLoop) + 2*1024*Ticks},
	} {
		m := module{types: list{voids, {formFunction, 1, typeI32, 0}}, imports: list{cat(str("wfhost"), str("nothing"), []byte{kindFunction, 0})},
			functions: list{{1}}, memories: onePage, exports: list{cat(str("f"), []byte{kindFunction, 1})},
			bodies: list{sized([]byte{1, 1, typeI32}, c.body, []byte{opEnd})}}
		r, err := Rewrite(m.bytes(), Options{Fuel: true})
		if err != nil {
			t.Fatal(name, err)
		}
		for engine, config := range engines {
			k := unlimited()
			k.portion = 3
			l, err := load(config(), nil, r, k)
			if err != nil {
				t.Fatal(name, err)
			}
			if got := l.outcome("f", 10); got != "[]" || k.used() != c.want {
				t.Errorf("%s, %s: %s for %d, want %d", name, engine, got, k.used(), c.want)
			}
			l.close()
		}
	}
}

// TestEnd stops a guest in a loop, at the same place on both engines, and traps if no fuel is granted.
func TestEnd(t *testing.T) {
	r, err := Rewrite(tightest(), Options{Fuel: true})
	if err != nil {
		t.Fatal(err)
	}
	for engine, config := range engines {
		turn := costs(opLocalGet, opI32Const, 0x6b, opLocalTee, opBrIf)
		k := &tank{portion: 2 * turn, limit: 200 * turn}
		l, err := load(config(), nil, r, k)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.outcome("f", math.MaxUint32); got != errFuel.Error() || k.used() != 200*turn+1 {
			t.Errorf("%s: %s after %d", engine, got, k.used())
		}
		k.portion, k.given = 0, math.MinInt64
		k.counter.Set(0)
		k.idle = true
		if got := l.outcome("f", math.MaxUint32); !strings.Contains(got, "unreachable") {
			t.Errorf("%s: %s", engine, got)
		}
		l.close()
	}
}

// TestReturnsAreLookedAt calls functions that do most of their work after the called function returns. Each checks
// the fuel at its end: otherwise all functions on the stack would do their work before the guest can be stopped.
func TestReturnsAreLookedAt(t *testing.T) {
	tail := cat([]byte{opBlock, blockEmpty, opLocalGet, 0, opI32Const, 0x7f, 0x46, opBrIf, 0}, // not charged at the entry
		bytes.Repeat([]byte{opLocalGet, 0, 0x45, opDrop}, 5000), []byte{opEnd})
	calls := []byte{opLocalGet, 0, opIf, blockEmpty, opLocalGet, 0, opI32Const, 1, 0x6b, opCall, 1, opDrop, opEnd}
	leaves := map[string][]byte{
		"end":    {opLocalGet, 0},
		"return": {opLocalGet, 0, opReturn},
		"branch": {opLocalGet, 0, opBr, 0},
		"within": {opLoop, blockEmpty, opLocalGet, 0, opReturn, opEnd, opUnreachable},
	}
	for name, leave := range leaves {
		for results, types := range (list{{typeI32}, {typeI32, typeI32}}) {
			if name == "within" && results > 0 { // the other one is not within
				continue
			}
			drops := bytes.Repeat([]byte{opDrop}, results)
			values := bytes.Repeat([]byte{opLocalGet, 0}, results)
			m := module{types: list{cat([]byte{formFunction, 1, typeI32}, vec(bytesOf(types)...)), {formFunction, 1, typeI32, 0}, voids},
				imports: list{cat(str("wfhost"), str("nothing"), []byte{kindFunction, 2})}, functions: list{{0}}, memories: onePage,
				exports: list{cat(str("f"), []byte{kindFunction, 1})},
				bodies:  list{function(cat(calls[:len(calls)-1], drops, calls[len(calls)-1:], tail, values, leave)...)}}
			r, err := Rewrite(m.bytes(), Options{Fuel: true})
			if err != nil {
				t.Fatal(err)
			}
			for engine, config := range engines {
				k := unlimited()
				k.portion = 1
				l, err := load(config(), nil, r, k)
				if err != nil {
					t.Fatal(name, err)
				}
				got := l.outcome("f", 100)
				lowest := min(k.lowest, int64(k.counter.Get()))
				if strings.Contains(got, "error") || k.used() < 100*5000*costs(0x45) || lowest < -3*5000*costs(0x45) {
					t.Errorf("%s, %d results, %s: %s, %d used, as low as %d", name, results+1, engine, got, k.used(), lowest)
				}
				l.close()
			}
		}
	}
}

// bytesOf makes a list of one-byte lists.
func bytesOf(b []byte) (out [][]byte) {
	for _, x := range b {
		out = append(out, []byte{x})
	}
	return out
}
