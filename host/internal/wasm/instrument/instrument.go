// Package instrument rewrites a module that has passed package validate, so that the host can meter its computation
// and reuse its instances: executed instructions are charged to a counter of fuel, and the state of an instance
// (globals, data segments, the start function) becomes accessible to the host.
//
// Otherwise the module behaves as before: inserted code leaves the stack unchanged, and nothing is removed without
// telling the host. An index that is out of range is an error here, because the added elements come after the
// module's own, and a guest that could address the counter could refill it.
//
// The format is described in the WebAssembly Core Specification 2.0, chapter 5. Numbers in comments refer to it.
package instrument

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/wfhost/wfhost/host/internal/wasm"
)

// A metered module imports a function of type () -> (), which is called when the counter of fuel is below zero. It
// must raise the counter to zero or more, or stop the guest. If it does neither, some loops trap (unreachable). The
// counter starts at zero, so the first function that runs calls it first: in a module that keeps its start function,
// that is during instantiation, unless the function is a leaf of few instructions. It is also called with a counter
// of zero or more when the memory or a table could not grow: then it must do nothing, but the host learns why the
// guest will fail.
const (
	ImportModule = "wfhost"
	ImportRefuel = "refuel"
)

// MaxGlobals bounds the mutable globals of a module with reusable instances: the host reads and writes each of them
// at every reuse. Linkers emit a handful, Go has eight.
const MaxGlobals = 256

// Options selects what Rewrite does besides the exports.
type Options struct {
	// Fuel meters the module: each instruction costs some ticks (see Map), about as many nanoseconds of fuel as it
	// takes. The entry of a function, an iteration of a loop, and each region within them are charged in advance,
	// where they begin. Short regions are charged to the region before them, even if they are not executed. In
	// addition, an instruction that moves bytes or elements is charged for its operand, a unit for each 64 bytes or 8
	// elements. An instruction that grows a memory or a table is charged for what it has added, at the same rate. A
	// reference to a function made at run time costs 64 units: engines keep it as long as the instance. Charges
	// depend on nothing else. The fuel is checked on entry to functions, in each iteration of a loop, where bytes are
	// moved, and where a large function returns. The time between two checks is microseconds, and only many
	// consecutive returns can add up to a second.
	Fuel bool
	// NaN replaces each NaN that an instruction computes by the canonical one (package wasm), without a charge. It
	// needs Fuel.
	NaN bool
	// large is the maximum cost of functions without a check on return, in ticks; 0 means largeCost.
	large int64
	// TableElements bounds the maximum of tables; a table that starts with more cannot grow. 0 leaves tables
	// unchanged.
	TableElements uint32
}

// Global is a mutable global of the module, exported for the host.
type Global struct {
	Export string
	Type   byte // value type (5.3.1): 0x7f i32, 0x7e i64, 0x7d f32, 0x7c f64
}

// Segment is an active data segment that the host writes. It lies within the initial memory.
type Segment struct {
	Offset uint32 // byte of the memory
	Bytes  []byte // alias the original module
}

// Module is a rewritten module.
type Module struct {
	Wasm []byte
	// Globals lists all mutable globals that the module defines, except the counter of fuel; empty with a refusal.
	Globals []Global
	// Fuel is the export of the counter of ticks, a mutable i64 that is zero in a new instance; "" without metering.
	Fuel string
	// Refusal says why instances cannot be reused, such as "it changes its table"; "" if they can. If they can, the
	// host must apply Data and call Start after instantiation, in this order, and can read and write the state in
	// Globals.
	Refusal string
	Data    []Segment // in the order of writing: they may overlap
	Start   string    // export of the original start function, of type () -> (); "" if there is none

	// Sizes of a new instance, including the counter of fuel.
	Elements    int // of all its tables
	References  int // to functions, in element segments; counted with metering only
	GlobalCount int
}

// Sections (5.5.2).
const (
	secCustom = iota
	secType
	secImport
	secFunction
	secTable
	secMemory
	secGlobal
	secExport
	secStart
	secElement
	secCode
	secData
	secDataCount
	sectionKinds
)

var sectionNames = [sectionKinds]string{"custom", "type", "import", "function", "table", "memory", "global", "export",
	"start", "element", "code", "data", "data count"}

// sectionOrder is the order of sections in a module: data count comes before code.
var sectionOrder = [...]byte{secType, secImport, secFunction, secTable, secMemory, secGlobal, secExport, secStart,
	secElement, secDataCount, secCode, secData}

// Kinds of imports and exports (5.5.5, 5.5.10).
const (
	kindFunction = iota
	kindTable
	kindMemory
	kindGlobal
)

// span is a range of bytes of the module.
type span struct{ from, to int }

type rewriter struct {
	wasm.Reader
	m         Module
	fuel, nan bool
	elements  uint32 // Options.TableElements
	large     int64  // Options.large
	sections  [sectionKinds]span
	names     span // the subsections of the name section

	types    []signature
	nullary  int      // the first type () -> (); len(types) if there is none
	imported [4]int   // number of imports of each kind
	defined  []uint32 // type of each function of the module
	globals  int      // including imported ones
	mutable  []mutable
	memories int
	pages    uint32 // initial memory
	exports  map[string]bool
	start    uint32

	out  []byte
	mark int // the module up to here has been written
	code body
}

// signature holds the numbers of parameters and results of a function type. result is the type of an only result.
type signature struct {
	params, results int
	result          byte
}

type mutable struct {
	index uint32
	kind  byte // value type
}

// Rewrite rewrites a module. It does not change source, but Data of the result aliases it. A malformed module is an
// error, or is rewritten into a module that no engine accepts. Rewrite leaves the check of types to the engine.
func Rewrite(source []byte, o Options) (*Module, error) {
	r := &rewriter{Reader: wasm.Reader{Module: source, End: len(source)}, fuel: o.Fuel, nan: o.NaN, elements: o.TableElements,
		large: cmp.Or(o.large, largeCost), exports: map[string]bool{}}
	r.split()
	r.survey()
	r.out = make([]byte, 0, len(source)/4*5)
	r.codeSection()
	code := r.out
	r.out = nil
	r.dataSection()
	r.out = make([]byte, 0, len(code)+len(source)-(r.sections[secCode].to-r.sections[secCode].from)+len(source)/64)
	r.export()
	r.write(code)
	if r.Err != nil {
		return nil, fmt.Errorf("rewrite: %w", r.Err)
	}
	r.m.Wasm, r.m.GlobalCount = r.out, r.globals
	if r.fuel {
		r.m.GlobalCount++
	}
	return &r.m, nil
}

// refuse records the first reason why instances cannot be reused.
func (r *rewriter) refuse(why string) {
	if r.m.Refusal == "" {
		r.m.Refusal = why
	}
}

// functions returns the number of functions of the original module.
func (r *rewriter) functions() int { return r.imported[kindFunction] + len(r.defined) }

// refuel returns the index of the function that adds fuel, the last import.
func (r *rewriter) refuel() uint32 { return uint32(r.imported[kindFunction]) }

// shift returns the new index of a function.
func (r *rewriter) shift(i uint32) uint32 {
	if r.fuel && i >= r.refuel() {
		return i + 1
	}
	return i
}

// free returns an export name that the module does not use: wish, with as many underscores appended as needed.
func (r *rewriter) free(wish string) string {
	for r.exports[wish] {
		wish += "_"
	}
	r.exports[wish] = true
	return wish
}

// export names the exports for the host.
func (r *rewriter) export() {
	if r.m.Refusal != "" {
		r.m.Data = nil
	} else {
		for _, g := range r.mutable {
			name := r.free("wfhost:g" + strconv.Itoa(int(g.index)))
			r.m.Globals = append(r.m.Globals, Global{Export: name, Type: g.kind})
		}
		if r.present(secStart) {
			r.m.Start = r.free("wfhost:start")
		}
	}
	if r.fuel {
		r.m.Fuel = r.free("wfhost:fuel")
	}
}
