package instrument

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/wfhost/wfhost/host/internal/wasm"
)

// shape is a type of functions.
type shape struct{ params, results []byte }

// shapes of random modules; the first is for imports.
var shapes = []shape{
	{[]byte{typeI32}, []byte{typeI32}},
	{},
	{[]byte{typeI64, typeI32}, []byte{typeI64}},
	{nil, []byte{typeI32, typeI64}},
	{[]byte{typeI32, typeI64}, []byte{typeI32, typeI64}},
	{nil, []byte{typeF64}},
}

func (s shape) bytes() []byte {
	return cat([]byte{formFunction}, sized(s.params), sized(s.results))
}

// label has the types that a branch needs on the stack.
type label []byte

// random generates modules that are valid, terminate, and use everything that a rewrite changes. Every function and
// every iteration of a loop decrements the budget, which is the first global, and traps when it is used up.
type random struct {
	*rand.Rand
	b       []byte
	wild    bool // includes what prevents instances from being reused
	imports int
	funcs   []int // shape of each function, imported ones first
	globals []byte
	locals  []byte
	labels  []label
	depth   int
}

// Masks for addresses, for lengths and for table indices.
const (
	maskAddress = 0x7fff
	maskLength  = 0x1ff
	maskTable   = 7
)

func (g *random) op(b ...byte) { g.b = append(g.b, b...) }

func (g *random) i32(v int32) { g.b = wasm.AppendS64(append(g.b, opI32Const), int64(v)) }

// masked pushes a number below a power of two.
func (g *random) masked(mask int32) {
	g.expr(typeI32)
	g.i32(mask)
	g.op(0x71)
}

func pick[T any](g *random, of ...T) T { return of[g.IntN(len(of))] }

// where gives the indexes of a value.
func where(s []byte, v byte) (out []byte) {
	for i, x := range s {
		if x == v {
			out = append(out, byte(i))
		}
	}
	return out
}

// expr pushes a value of a type.
func (g *random) expr(t byte) {
	g.depth++
	defer func() { g.depth-- }()
	if t == typeV128 {
		g.expr(typeI32)
		g.op(opPrefixFD, 17) // i32x4.splat
		return
	}
	n := g.IntN(14)
	if g.depth > 5 {
		n = g.IntN(3)
	}
	switch n {
	case 0:
		g.constant(t)
	case 1:
		g.op(opLocalGet, pick(g, where(g.locals, t)...))
	case 2:
		g.op(opGlobalGet, pick(g, where(g.globals, t)...))
	case 3, 4, 5:
		g.compute(t)
	case 6:
		g.masked(maskAddress)
		g.op(map[byte][]byte{typeI32: {0x2d, 0, 3}, typeI64: {0x29, 3, 8}, typeF64: {0x2b, 3, 0}}[t]...)
	case 7, 8:
		g.block(opBlock, nil, []byte{t})
	case 9, 10:
		g.block(opLoop, nil, []byte{t})
	case 11:
		g.expr(typeI32)
		g.block(opIf, nil, []byte{t})
	case 12:
		g.expr(t)
		g.expr(t)
		g.expr(typeI32)
		g.op(pick(g, []byte{opSelect}, []byte{opSelectTyped, 1, t})...)
	default:
		g.call(t)
	}
}

func (g *random) constant(t byte) {
	switch t {
	case typeI32:
		g.i32(pick(g, 0, 1, -1, g.Int32N(1000), int32(g.Uint32())))
	case typeI64:
		g.b = wasm.AppendS64(append(g.b, opI64Const), pick(g, 0, -1, g.Int64N(1000), int64(g.Uint64())))
	case typeF64:
		g.op(opF64Const, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f)
	}
}

func (g *random) compute(t byte) {
	switch n := g.IntN(4); {
	case t == typeF64 && n < 2:
		g.expr(typeI32)
		g.op(0xb7) // f64.convert_i32_s
	case t == typeF64:
		g.expr(t)
		g.expr(t)
		g.op(0xa0) // add
	case n < 2:
		g.expr(t)
		g.expr(t)
		g.op(pick[byte](g, 0x6a, 0x6b, 0x6c, 0x71, 0x73, 0x74, 0x6e) + map[byte]byte{typeI32: 0, typeI64: 0x12}[t])
	case t == typeI64:
		g.expr(typeI32)
		g.op(pick(g, []byte{0xac}, []byte{0xad}, []byte{0xac, 0xc3})...) // extend, extend16_s
	default:
		g.small()
	}
}

// small pushes an i32 computed by a rare instruction.
func (g *random) small() {
	switch g.IntN(9) {
	case 0:
		g.expr(typeI64)
		g.op(0xa7) // wrap
	case 1:
		g.expr(typeI64)
		g.expr(typeI64)
		g.op(0x53) // lt_s
	case 2:
		g.expr(typeF64)
		g.op(opPrefixFC, 2) // trunc_sat
	case 3:
		g.op(opMemorySize, 0)
	case 4:
		g.masked(1)
		g.op(opMemoryGrow, 0)
	case 5:
		g.op(opRefFunc, byte(g.IntN(len(g.funcs))), opRefIsNull)
	case 6:
		g.masked(maskTable)
		g.op(opTableGet, 0, opRefIsNull)
	case 7:
		g.op(opLocalGet, pick(g, where(g.locals, typeV128)...), opPrefixFD, 27, byte(g.IntN(4))) // extract_lane
	default:
		g.masked(maskAddress)
		g.op(opPrefixFD, 92, 2, 0, opPrefixFD, 27, 0) // v128.load32_zero
	}
}

// call pushes the result of a function.
func (g *random) call(t byte) {
	var fit []int
	for i, f := range g.funcs {
		if slices.Equal(shapes[f].results, []byte{t}) {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		g.constant(t)
		return
	}
	f := pick(g, fit...)
	for _, p := range shapes[g.funcs[f]].params {
		g.expr(p)
	}
	if g.IntN(3) > 0 {
		g.op(opCall, byte(f))
		return
	}
	g.masked(maskTable)
	g.op(opCallIndirect, byte(g.funcs[f]), 0)
}

// block generates a block whose parameters are on the stack.
func (g *random) block(op byte, params, results []byte) {
	g.op(op)
	switch i := slices.IndexFunc(shapes, func(s shape) bool {
		return slices.Equal(s.params, params) && slices.Equal(s.results, results)
	}); {
	case i >= 0 && (len(params) > 0 || len(results) != 1):
		g.op(byte(i))
	case len(results) == 1:
		g.op(results[0])
	default:
		g.op(blockEmpty)
	}
	l := label(results)
	if op == opLoop {
		l = params
	}
	g.labels = append(g.labels, l)
	g.body(op == opLoop, params, results)
	if op == opIf {
		g.op(opElse)
		g.body(false, params, results)
	}
	g.labels = g.labels[:len(g.labels)-1]
	g.op(opEnd)
}

func (g *random) body(loop bool, params, results []byte) {
	for _, p := range slices.Backward(params) {
		g.op(opLocalSet, pick(g, where(g.locals, p)...))
	}
	if loop {
		g.spend()
	}
	for range g.IntN(3) {
		g.statement()
	}
	for _, t := range results {
		g.expr(t)
	}
}

// spend takes one from the budget.
func (g *random) spend() {
	g.op(opGlobalGet, 0, opI32Eqz, opIf, blockEmpty, opUnreachable, opEnd)
	g.op(opGlobalGet, 0, opI32Const, 1, 0x6b, opGlobalSet, 0)
}

func (g *random) statement() {
	g.depth++
	defer func() { g.depth-- }()
	n := g.IntN(13)
	if g.depth > 4 {
		n = g.IntN(4)
	}
	switch n {
	case 0, 1:
		l := g.IntN(len(g.locals))
		g.expr(g.locals[l])
		g.op(opLocalSet, byte(l))
	case 2:
		i := 1 + g.IntN(len(mutableGlobals)-1)
		g.expr(mutableGlobals[i])
		g.op(opGlobalSet, byte(i))
	case 3:
		g.masked(maskAddress)
		g.expr(typeI64)
		g.op(0x37, 3, 0)
	case 4, 5, 6:
		g.branch()
	case 7:
		g.masked(maskAddress)
		g.masked(maskAddress)
		g.masked(maskLength)
		g.op(pick(g, []byte{opPrefixFC, fcMemoryCopy, 0, 0}, []byte{opPrefixFC, fcMemoryFill, 0})...)
	case 8:
		g.masked(maskAddress)
		g.expr(typeV128)
		g.op(pick(g, []byte{opPrefixFD, 11, 4, 0}, []byte{opPrefixFD, 90, 2, 0, 1})...) // store, store32_lane
	case 9:
		g.expr(typeI32)
		g.expr(typeI64)
		g.block(opLoop, shapes[4].params, shapes[4].results)
		g.op(opDrop, opDrop)
	case 10:
		g.block(pick[byte](g, opBlock, opLoop), nil, nil)
	case 11:
		g.op(0x01)
		g.call(typeI64)
		g.op(opDrop)
	default:
		if g.wild {
			g.unfit()
		}
	}
}

// unfit writes what makes instances unfit.
func (g *random) unfit() {
	switch g.IntN(5) {
	case 0:
		g.masked(maskTable)
		g.op(opRefFunc, byte(g.IntN(len(g.funcs))), opTableSet, 0)
	case 1:
		g.op(opRefNull, typeFuncRef)
		g.masked(3)
		g.op(opPrefixFC, fcTableGrow, 0, opDrop)
	case 2:
		g.op(opI32Const, 1, opI32Const, 0, opI32Const, 2, opPrefixFC, fcTableInit, 1, 0)
	case 3:
		g.op(opI32Const, 1, opI32Const, 2, opI32Const, 3, opPrefixFC, fcTableCopy, 0, 0)
	case 4:
		g.masked(maskAddress)
		g.op(opI32Const, 0, opI32Const, 3, opPrefixFC, fcMemoryInit, 1, 0)
	}
}

// branch generates a branch to a label, by one of four instructions.
func (g *random) branch() {
	to := g.IntN(len(g.labels))
	values := g.labels[len(g.labels)-1-to]
	if g.IntN(2) == 0 {
		for _, t := range values {
			g.expr(t)
		}
		g.expr(typeI32)
		g.op(opBrIf, byte(to))
		for range values {
			g.op(opDrop)
		}
		return
	}
	g.expr(typeI32)
	g.op(opIf, blockEmpty) // what follows is not reached
	g.labels = append(g.labels, nil)
	to++
	for _, t := range values {
		g.expr(t)
	}
	var alike []byte
	for i := range g.labels {
		if slices.Equal(g.labels[len(g.labels)-1-i], values) {
			alike = append(alike, byte(i))
		}
	}
	switch g.IntN(3) {
	case 0:
		g.op(opBr, byte(to))
	case 1:
		g.expr(typeI32)
		g.op(opBrTable, 2, pick(g, alike...), byte(to), pick(g, alike...))
	default:
		if slices.Equal(values, g.labels[0]) {
			g.op(opReturn)
		} else {
			g.op(opBr, byte(to))
		}
	}
	if g.IntN(4) == 0 {
		g.statement() // dead
	}
	g.labels = g.labels[:len(g.labels)-1]
	g.op(opEnd)
}

func (g *random) function(s shape) []byte {
	extra := []byte{typeI32, typeI32, typeI64, typeF64, typeV128}
	g.b, g.locals, g.labels = nil, append(slices.Clone(s.params), extra...), []label{s.results}
	g.op(leb(4)...)
	g.op(2, typeI32, 1, typeI64, 1, typeF64, 1, typeV128)
	g.spend()
	g.body(false, nil, s.results)
	g.op(opEnd)
	return g.b
}

// mutableGlobals come first in random modules; the first is the budget.
var mutableGlobals = []byte{typeI32, typeI32, typeI64, typeF64}

// randomModule generates a module. Its functions are exported as e0, e1 and so on, its mutable globals as x0, x1.
func randomModule(seed uint64, wild bool) []byte {
	g := &random{Rand: rand.New(rand.NewPCG(seed, 1)), wild: wild}
	g.imports = g.IntN(4)
	g.funcs = make([]int, g.imports, 10)
	for range 2 + g.IntN(4) {
		g.funcs = append(g.funcs, g.IntN(len(shapes)))
	}
	own := len(g.funcs) - g.imports
	var types, imports, functions, globals, exports, bodies, all [][]byte
	for _, s := range shapes {
		types = append(types, s.bytes())
	}
	for i := range g.imports {
		imports = append(imports, cat(str("env"), str(fmt.Sprint("f", i)), []byte{kindFunction, 0}))
	}
	inits := map[byte][]byte{typeI32: {opI32Const, 5, opEnd}, typeI64: {opI64Const, 7, opEnd}, typeF64: {opF64Const, 0, 0, 0, 0, 0, 0, 0, 0, opEnd}}
	for i, t := range mutableGlobals {
		g.globals = append(g.globals, t)
		globals = append(globals, cat([]byte{t, 1}, inits[t]))
		exports = append(exports, cat(str(fmt.Sprint("x", i)), []byte{kindGlobal, byte(i)}))
	}
	g.globals = append(g.globals, typeI64, typeFuncRef)
	globals = append(globals, cat([]byte{typeI64, 0}, inits[typeI64]), []byte{typeFuncRef, 0, opRefFunc, byte(g.imports), opEnd})
	exports = append(exports, cat(str("memory"), []byte{kindMemory, 0}), cat(str("wfhost:g1"), []byte{kindTable, 0}))
	for i := range own {
		functions = append(functions, leb(uint64(g.funcs[g.imports+i])))
		exports = append(exports, cat(str(fmt.Sprint("e", i)), []byte{kindFunction, byte(g.imports + i)}))
		bodies = append(bodies, sized(g.function(shapes[g.funcs[g.imports+i]])))
	}
	for i := range g.funcs {
		all = append(all, []byte{byte(i)})
	}
	starts := []byte{}
	if i := slices.Index(g.funcs[g.imports:], 1); i >= 0 && g.IntN(2) == 0 {
		starts = sec(secStart, leb(uint64(g.imports+i)))
	}
	f := byte(g.imports)
	elements := sec(secElement, vec(cat([]byte{0, opI32Const, 0, opEnd}, vec(all...)), cat([]byte{3, 0}, vec(all...)), []byte{7, typeFuncRef, 1, opRefFunc, f, opEnd},
		[]byte{6, 0, opI32Const, 6, opEnd, typeFuncRef, 2, opRefFunc, f, opEnd, opRefNull, typeFuncRef, opEnd}))
	data := [][]byte{{0, opI32Const, 3, opEnd, 3, 'a', 'b', 'c'}, {0, opI32Const, 4, opEnd, 3, 'x', 'y', 'z'}}
	if wild {
		elements = sec(secElement, vec(cat([]byte{0, opI32Const, 0, opEnd}, vec(all...)), cat([]byte{1, 0}, vec(all...)), cat([]byte{5, typeFuncRef, 1, opRefFunc, f, opEnd}),
			[]byte{2, 0, opI32Const, 7, opEnd, 0, 1, f}, []byte{4, opI32Const, 6, opEnd, 1, opRefFunc, f, opEnd}))
		data[1] = []byte{1, 3, 'x', 'y', 'z'}
	}
	names := sec(secCustom, str(nameSection), []byte{0}, sized(str("m")), []byte{1}, sized(vec(cat([]byte{f}, str("first")))))
	return cat([]byte(header), sec(secType, vec(types...)), sec(secImport, vec(imports...)), sec(secCustom, str("other"), []byte("x")),
		sec(secFunction, vec(functions...)), sec(secTable, vec([]byte{typeFuncRef, 1, 10, 20})), sec(secMemory, vec([]byte{1, 1, 4})),
		sec(secGlobal, vec(globals...)), sec(secExport, vec(exports...)), starts, elements, sec(secDataCount, leb(2)), sec(secCode, vec(bodies...)),
		sec(secData, vec(data...)), names)
}
