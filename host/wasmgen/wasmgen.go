// Package wasmgen writes small WebAssembly modules instruction by instruction: for tests that need what a compiled
// guest would not do, and for benchmarks of the host with a guest that costs next to nothing. The binary format is
// specified at https://webassembly.github.io/spec/core/binary.
package wasmgen

import (
	"maps"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
)

// DataAt is the address of the first text of a module; the memory below it is free for the code.
const DataAt = 4096

// Module collects the parts of a module. The methods append code, for one entry point after another.
type Module struct {
	imports []string
	exports map[string][]byte
	code    []byte
	data    []byte
	locals  int
	// Pages is the memory's size in pages of 64 KiB; 2 by default.
	Pages int
}

// New returns an empty module whose functions have a number of locals of type i64.
func New(locals int) *Module { return &Module{exports: map[string][]byte{}, locals: locals} }

// Op appends instructions verbatim.
func (m *Module) Op(b ...byte) *Module {
	m.code = append(m.code, b...)
	return m
}

// I32 pushes a constant.
func (m *Module) I32(v int32) *Module { return m.Op(0x41).Op(signed(int64(v))...) }

// I64 pushes a constant.
func (m *Module) I64(v int64) *Module { return m.Op(0x42).Op(signed(v)...) }

// Text pushes the address and the length of a text.
func (m *Module) Text(s string) *Module {
	at := len(m.data)
	m.data = append(m.data, s...)
	return m.I32(int32(DataAt + at)).I32(int32(len(s)))
}

// Prefixes mark functions of WASI and of AssemblyScript's env.
const (
	wasiPrefix = "wasi:"
	envPrefix  = "env:"
)

// Call calls a function of the host, or with the prefix "wasi:" of WASI, with "env:" of AssemblyScript's env. It adds
// the import if it is missing.
func (m *Module) Call(name string) *Module {
	i := slices.Index(m.imports, name)
	if i < 0 {
		i = len(m.imports)
		m.imports = append(m.imports, name)
	}
	return m.Op(0x10).Op(unsigned(i)...)
}

// Set pops into a local.
func (m *Module) Set(local byte) *Module { return m.Op(0x21, local) }

// Get pushes a local.
func (m *Module) Get(local byte) *Module { return m.Op(0x20, local) }

// Drop pops.
func (m *Module) Drop() *Module { return m.Op(0x1a) }

// Store64 pops an i64 to an address: the address must have been pushed before the value.
func (m *Module) Store64() *Module { return m.Op(0x37, 3, 0) }

// Store8 pops an i32 to an address, as a byte: the address must have been pushed before the value.
func (m *Module) Store8() *Module { return m.Op(0x3a, 0, 0) }

// Load8 pops an address and pushes the byte there as an i64.
func (m *Module) Load8() *Module { return m.Op(0x31, 0, 0) }

// Wrap pops an i64 and pushes it as an i32.
func (m *Module) Wrap() *Module { return m.Op(0xa7) }

// Add pops two i64 and pushes their sum. Sub, Mul, Div and Rem work alike; Div and Rem are unsigned.
func (m *Module) Add() *Module { return m.Op(0x7c) }

// Sub subtracts.
func (m *Module) Sub() *Module { return m.Op(0x7d) }

// Mul multiplies.
func (m *Module) Mul() *Module { return m.Op(0x7e) }

// Div divides.
func (m *Module) Div() *Module { return m.Op(0x80) }

// Rem pushes the remainder.
func (m *Module) Rem() *Module { return m.Op(0x82) }

// Count adds a number to a local.
func (m *Module) Count(local byte, by int64) *Module { return m.Get(local).I64(by).Add().Set(local) }

// IsZero pops an i64 and pushes an i32: 1 if it is zero, else 0.
func (m *Module) IsZero() *Module { return m.Op(0x50) }

// Less pops two i64 and pushes whether the lower one is less, unsigned.
func (m *Module) Less() *Module { return m.Op(0x54) }

// NotLess pops two i64 and pushes whether the lower one is not less, unsigned.
func (m *Module) NotLess() *Module { return m.Op(0x5a) }

// While begins a loop that Break leaves and EndWhile repeats.
func (m *Module) While() *Module { return m.Op(0x02, 0x40, 0x03, 0x40) }

// Break leaves the loop if the popped i32 is not 0. It must not be in a block within the loop.
func (m *Module) Break() *Module { return m.Op(0x0d, 1) }

// EndWhile jumps to the loop's beginning.
func (m *Module) EndWhile() *Module { return m.Op(0x0c, 0, 0x0b, 0x0b) }

// IfZero64 begins instructions that are executed if the popped i64 is zero; End ends them.
func (m *Module) IfZero64() *Module { return m.Op(0x50, 0x04, 0x40) }

// End ends a block.
func (m *Module) End() *Module { return m.Op(0x0b) }

// Export ends a function of type () -> i32 and exports it. The code must leave an i32. Only _initialize, _start and
// workflow_describe are of type () -> (), and leave nothing.
func (m *Module) Export(name string) *Module {
	locals := []byte{0}
	if m.locals > 0 {
		locals = append([]byte{1}, append(unsigned(m.locals), 0x7e)...)
	}
	m.exports[name] = slices.Concat(locals, m.code, []byte{0x0b})
	m.code = nil
	return m
}

// Bytes returns the module.
func (m *Module) Bytes() []byte {
	names := slices.Sorted(maps.Keys(m.exports))
	var types, imports, functions, exports, bodies [][]byte
	for i, name := range m.imports {
		from := abi.ImportModule
		if rest, ok := strings.CutPrefix(name, wasiPrefix); ok {
			from, name = abi.WASIModule, rest
		} else if rest, ok := strings.CutPrefix(name, envPrefix); ok {
			from, name = abi.EnvModule, rest
		}
		s, ok := abi.Import(from, name)
		if !ok {
			panic("no function " + name)
		}
		types = append(types, slices.Concat([]byte{0x60}, vector1(s.Params), vector1(s.Results)))
		imports = append(imports, slices.Concat(text(from), text(name), []byte{0}, unsigned(i)))
	}
	types = append(types, []byte{0x60, 0, 1, 0x7f}, []byte{0x60, 0, 0})
	exports = append(exports, append(text(abi.ExportMemory), 2, 0))
	for i, name := range names {
		kind := len(m.imports)
		if name == abi.ExportInitialize || name == abi.ExportStart || name == abi.ExportDescribe {
			kind++
		}
		functions = append(functions, unsigned(kind))
		exports = append(exports, slices.Concat(text(name), []byte{0}, unsigned(len(m.imports)+i)))
		bodies = append(bodies, slices.Concat(unsigned(len(m.exports[name])), m.exports[name]))
	}
	data := slices.Concat([]byte{0, 0x41}, signed(DataAt), []byte{0x0b}, unsigned(len(m.data)), m.data)
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"), section(1, types), section(2, imports),
		section(3, functions), section(5, [][]byte{append([]byte{0}, unsigned(max(m.Pages, 2))...)}), section(7, exports),
		section(10, bodies), section(11, [][]byte{data}))
}

func section(id byte, items [][]byte) []byte {
	body := slices.Concat(unsigned(len(items)), slices.Concat(items...))
	return slices.Concat([]byte{id}, unsigned(len(body)), body)
}

func text(s string) []byte { return append(unsigned(len(s)), s...) }

func vector1(types []abi.Type) []byte {
	b := unsigned(len(types))
	for _, t := range types {
		b = append(b, byte(t))
	}
	return b
}

// unsigned encodes a number in LEB128.
func unsigned(n int) (b []byte) {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// signed encodes a number in signed LEB128.
func signed(v int64) (b []byte) {
	for v < -64 || v > 63 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v)&0x7f)
}
