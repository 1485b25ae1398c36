// Package instrument changes a module that package validate has passed, so that the host can meter what it computes and use its
// instances again: a counter of fuel is charged for what is executed, and what an
// instance's state is made of (globals, the segments of data, the start function) becomes reachable from outside.
//
// Beside that, the module does what it did: what is inserted leaves the stack as it was, and nothing is removed
// that the host is not told of. An index that is out of range is an error here, since the things that are added
// stand behind the module's own, and a guest that could name the counter could fill it.
//
// The format is that of the WebAssembly Core Specification 2.0, chapter 5, to which numbers in comments refer.
package instrument

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/wfhost/wfhost/host/internal/wasm"
)

// The function of type () -> () that a metered module imports. It is called when the counter of fuel is below
// zero: it makes it zero or more, or it ends the guest. If it does neither, some loops trap (unreachable). The counter
// is zero in the beginning, so it is called first by the first function that runs: in a module that keeps its start
// function, while the module is instantiated, unless that is a leaf of few instructions. It is also called, with a counter that
// is not below zero, when the memory or a table could not grow: then there is nothing to do, but the host can tell why the guest
// breaks down.
const (
	ImportModule = "wfhost"
	ImportRefuel = "refuel"
)

// MaxGlobals bounds the mutable globals of a module whose instances are used again: each is read and written by
// the host, every time. Linkers emit a handful, Go has eight.
const MaxGlobals = 256

// Options says what is done beside the exports.
type Options struct {
	// Fuel meters the module: it pays for what it executes (see Map), some nanoseconds for an instruction, in ticks. The
	// entry of a function, a turn of a loop, and each region within them are paid for where they begin, in advance. Short
	// regions are paid for by those that do not come there, too.
	// Beside that, an instruction that moves bytes or elements pays for as many as it is told, a unit for each 64
	// bytes or 8 elements; one that adds to a memory or a table pays for what it has added, by the same measure.
	// A reference to a function that is made while the guest runs costs 64 units: engines keep it as long as the instance.
	// What is paid depends on nothing else.
	// Whether there is fuel left is looked at where functions are entered and in each turn of a loop, where bytes are moved, and
	// where a large function returns: what lies between two looks takes microseconds, and it takes many calls that return after
	// each other to come to a second.
	Fuel bool
	// NaN makes each NaN that an instruction computes the canonical one (package wasm), at no cost in fuel. It needs Fuel.
	NaN bool
	// large is the bound of functions that need not look where they return, in ticks; 0 is largeCost.
	large int64
	// TableElements is the largest maximum of a table; one that has more in the beginning cannot grow. 0 changes no table.
	TableElements uint32
}

// Global is a mutable global of the module, exported for the host.
type Global struct {
	Export string
	Type   byte // value type (5.3.1): 0x7f i32, 0x7e i64, 0x7d f32, 0x7c f64
}

// Segment is an active segment of data that the host writes itself. It lies within the memory's first size.
type Segment struct {
	Offset uint32 // byte of the memory
	Bytes  []byte // alias the module that was given
}

// Module is a rewritten module.
type Module struct {
	Wasm []byte
	// Globals are all mutable globals that the module defines, except the counter of fuel; none with a refusal.
	Globals []Global
	// Fuel is the export of the counter of ticks, a mutable i64 which is zero in a new instance; "" without fuel.
	Fuel string
	// Refusal says why instances cannot be used again, such as "it changes its table"; "" if they can. Then
	// Data and Start are what instantiation no longer does, in this order; the globals are what it leaves.
	Refusal string
	Data    []Segment // in the order in which they are to be written: they may overlap
	Start   string    // export of what was the start function, of type () -> (); "" if there is none

	// What an instance has when it is new, the counter of fuel included, so that its size can be told.
	Elements    int // of all of its tables
	References  int // to functions, in segments of elements; counted with fuel only
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

// sectionOrder is that in which sections stand in a module: data count comes before code.
var sectionOrder = [...]byte{secType, secImport, secFunction, secTable, secMemory, secGlobal, secExport, secStart,
	secElement, secDataCount, secCode, secData}

// Kinds of imports and exports (5.5.5, 5.5.10).
const (
	kindFunction = iota
	kindTable
	kindMemory
	kindGlobal
)

// span is a part of the module.
type span struct{ from, to int }

type rewriter struct {
	wasm.Reader
	m         Module
	fuel, nan bool
	elements  uint32 // Options.TableElements
	large     int64  // Options.large
	sections  [sectionKinds]span
	names     span // subsections of the name section

	types    []signature
	nullary  int      // the first type () -> (), len(types) if the module has none
	imported [4]int   // imports of each kind
	defined  []uint32 // type of each function of the module
	globals  int      // with the imported ones
	mutable  []mutable
	memories int
	pages    uint32 // of memory at the start
	exports  map[string]bool
	start    uint32

	out  []byte
	mark int // what is before it has been written
	code body
}

// signature counts what a type of functions takes and gives. result is the type of the only result.
type signature struct {
	params, results int
	result          byte
}

type mutable struct {
	index uint32
	kind  byte // value type
}

// Rewrite rewrites a module. The input is not changed, and Data of the result refers to it. A module that is not
// well formed is an error or is rewritten into one that no engine accepts; types are left to the engine.
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

// refuse keeps the first reason why instances cannot be used again.
func (r *rewriter) refuse(why string) {
	if r.m.Refusal == "" {
		r.m.Refusal = why
	}
}

// functions counts all functions of the module as it was.
func (r *rewriter) functions() int { return r.imported[kindFunction] + len(r.defined) }

// refuel is the index of the function that adds fuel, the last import.
func (r *rewriter) refuel() uint32 { return uint32(r.imported[kindFunction]) }

// shift gives the index that a function has in the rewritten module.
func (r *rewriter) shift(i uint32) uint32 {
	if r.fuel && i >= r.refuel() {
		return i + 1
	}
	return i
}

// free gives a name that the module does not export: the wish, with as many lines below it as needed.
func (r *rewriter) free(wish string) string {
	for r.exports[wish] {
		wish += "_"
	}
	r.exports[wish] = true
	return wish
}

// export names what is exported to the host.
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
