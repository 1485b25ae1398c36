package validate

import (
	"maps"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
)

// Kinds of imports and exports.
const (
	kindFunction = 0
	kindTable    = 1
	kindMemory   = 2
	kindGlobal   = 3
)

// Value types besides i32 and i64 of package abi.
const (
	typeF32       = 0x7d
	typeF64       = 0x7c
	typeV128      = 0x7b
	typeFuncRef   = 0x70
	typeExternRef = 0x6f
)

func (s *scanner) valueType(what string) (abi.Type, error) {
	c, err := s.byte(what)
	if err != nil {
		return 0, err
	}
	switch c {
	case byte(abi.I32), byte(abi.I64), typeF32, typeF64, typeV128, typeFuncRef, typeExternRef:
		return abi.Type(c), nil
	}
	return 0, s.bad("unknown value type", "%s has type 0x%02x", what, c)
}

func (s *scanner) typeSection() error {
	n, err := s.count("types", maxTypes, 3)
	for range n {
		var form byte
		form, err = s.byte("a type")
		if err != nil {
			return err
		}
		if form != 0x60 {
			return s.bad("unknown form of type", "0x%02x; types of garbage collection are not supported", form)
		}
		var sig abi.Signature
		sig.Params, err = s.typeList("parameters", maxParams)
		if err != nil {
			return err
		}
		sig.Results, err = s.typeList("results", maxResults)
		if err != nil {
			return err
		}
		s.types = append(s.types, sig)
	}
	return err
}

func (s *scanner) typeList(what string, limit int) (list []abi.Type, err error) {
	n, err := s.count(what, limit, 1)
	for range n {
		t, err := s.valueType(what)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, err
}

func (s *scanner) typeIndex(what string) (uint32, error) {
	t, err := s.u32(what)
	if err == nil && int(t) >= len(s.types) {
		err = s.bad("unknown type", "%s has type %d of %d", what, t, len(s.types))
	}
	return t, err
}

func (s *scanner) importSection() error {
	n, err := s.count("imports", maxImports, 4)
	for range n {
		var module, name string
		module, err = s.name("the module of an import")
		if err != nil {
			return err
		}
		name, err = s.name("the name of an import")
		if err != nil {
			return err
		}
		var kind byte
		kind, err = s.byte("an import")
		if err != nil {
			return err
		}
		if kind != kindFunction {
			return s.bad("only functions may be imported", "%s.%s is none", module, name)
		}
		t, err := s.typeIndex("import " + module + "." + name)
		if err != nil {
			return err
		}
		want, ok := abi.Import(module, name)
		if !ok {
			return s.bad("unknown import", "%s.%s; the host supplies %s, %s, and of %s %s", module, name, abi.ImportModule,
				abi.WASIModule, abi.EnvModule, strings.Join(slices.Sorted(maps.Keys(abi.EnvFunctions)), " and "))
		}
		if !want.Equal(s.types[t]) {
			return s.bad("an import has the wrong type", "%s.%s is %s, the module says %s", module, name, want, s.types[t])
		}
		s.m.ImportsWASI = s.m.ImportsWASI || module == abi.WASIModule
		s.imported = append(s.imported, t)
	}
	return err
}

func (s *scanner) functionSection() error {
	n, err := s.count("functions", maxFunctions, 1)
	for range n {
		t, err := s.typeIndex("a function")
		if err != nil {
			return err
		}
		s.defined = append(s.defined, t)
	}
	s.m.Functions = n
	return err
}

// limits reads the limits of a table or memory and returns the minimum. Flag bits other than the one for a maximum
// mean shared and 64-bit memories.
func (s *scanner) limits(what string) (low uint32, err error) {
	flag, err := s.byte(what)
	if err != nil {
		return 0, err
	}
	if flag > 1 {
		return 0, s.bad("shared and 64-bit memories are not supported", "%s has the flags 0x%02x", what, flag)
	}
	low, err = s.u32(what)
	if err != nil || flag == 0 {
		return low, err
	}
	high, err := s.u32(what)
	if err == nil && high < low {
		err = s.bad("a maximum is below the minimum", "%s has %d and %d", what, low, high)
	}
	return low, err
}

func (s *scanner) tableSection() error {
	n, err := s.count("tables", maxTables, 3)
	sum := int64(0)
	for range n {
		t, err := s.byte("a table")
		if err != nil {
			return err
		}
		if t != typeFuncRef && t != typeExternRef {
			return s.bad("unknown type of table", "0x%02x", t)
		}
		low, err := s.limits("a table")
		if err != nil {
			return err
		}
		sum += int64(low)
		if sum > abi.MaxTableElements {
			return s.over("tables are too large", abi.MaxTableElements, sum)
		}
	}
	s.tables = n
	return err
}

func (s *scanner) memorySection() error {
	n, err := s.count("memories", 1, 2)
	for range n {
		low, err := s.limits("the memory")
		if err != nil {
			return err
		}
		if low > maxPages {
			return s.over("the memory is too large at the start, in pages of 64 KiB", maxPages, int64(low))
		}
		s.m.MemoryPages = low
	}
	s.memories = n
	return err
}

func (s *scanner) globalSection() error {
	n, err := s.count("globals", maxGlobals, 3)
	for range n {
		if _, err := s.valueType("a global"); err != nil {
			return err
		}
		if _, err := s.byte("a global"); err != nil {
			return err
		}
		if err := s.expression("the value of a global"); err != nil {
			return err
		}
	}
	s.globals = n
	return err
}

func (s *scanner) exportSection() error {
	n, err := s.count("exports", maxExports, 3)
	for range n {
		name, err := s.name("the name of an export")
		if err != nil {
			return err
		}
		var e export
		e.kind, err = s.byte("an export")
		if err != nil {
			return err
		}
		if e.kind > kindGlobal {
			return s.bad("unknown kind of export", "%q has kind %d", name, e.kind)
		}
		e.index, err = s.u32("an export")
		if err != nil {
			return err
		}
		if _, twice := s.exports[name]; twice {
			return s.bad("two exports have one name", "%q", name)
		}
		s.exports[name] = e
	}
	return err
}

func (s *scanner) elementSection() error {
	n, err := s.count("element segments", maxElements, 2)
	for range n {
		if err := s.element(); err != nil {
			return err
		}
	}
	return err
}

// element skips one segment. Flags: bit 0 is passive or declarative, bit 1 an explicit table index (or declarative),
// bit 2 expressions instead of function indexes.
func (s *scanner) element() error {
	const what = "an element segment"
	flags, err := s.u32(what)
	if err != nil {
		return err
	}
	if flags > 7 {
		return s.bad("unknown kind of element segment", "its flags are %d", flags)
	}
	if flags&1 == 0 {
		if flags&2 != 0 {
			if _, err := s.u32(what); err != nil {
				return err
			}
		}
		if err := s.expression(what); err != nil {
			return err
		}
	}
	if flags&3 != 0 { // its kind or type
		if _, err := s.byte(what); err != nil {
			return err
		}
	}
	n, err := s.count("elements", abi.MaxTableElements, 1)
	s.elements += n
	if s.elements > abi.MaxTableElements {
		return s.over("element segments have too many elements", abi.MaxTableElements, int64(s.elements))
	}
	for range n {
		if flags&4 != 0 {
			err = s.expression(what)
		} else {
			_, err = s.u32(what)
		}
		if err != nil {
			return err
		}
	}
	return err
}

func (s *scanner) dataSection() error {
	const what = "a data segment"
	n, err := s.count("data segments", maxSegments, 2)
	s.segments = n
	for range n {
		flags, err := s.u32(what)
		if err != nil {
			return err
		}
		if flags > 2 {
			return s.bad("unknown kind of data segment", "its flags are %d", flags)
		}
		if flags == 2 {
			if _, err := s.u32(what); err != nil {
				return err
			}
		}
		if flags != 1 {
			if err := s.expression(what); err != nil {
				return err
			}
		}
		size, err := s.u32(what)
		if err != nil {
			return err
		}
		if err := s.skip(int(size), what); err != nil {
			return err
		}
	}
	return err
}

// expression skips a constant expression.
func (s *scanner) expression(what string) error {
	end := s.end
	s.end = min(end, s.at+maxInitExpression)
	err := s.instructions(what, &body{})
	s.end = end
	return err
}

func (s *scanner) codeSection() error {
	n, err := s.count("function bodies", maxFunctions, 3)
	if err != nil {
		return err
	}
	if n != len(s.defined) {
		return s.bad("functions and bodies differ in number", "%d and %d", len(s.defined), n)
	}
	end := s.end
	for range n {
		size, err := s.u32("the size of a function")
		if err != nil {
			return err
		}
		if size > maxBodyBytes {
			return s.over("a function is too large", maxBodyBytes, int64(size))
		}
		if int(size) > end-s.at {
			return s.truncated("a function")
		}
		s.end = s.at + int(size)
		if err := s.function(); err != nil {
			return err
		}
		if s.at != s.end {
			return s.bad("a function has the wrong size", "%d bytes are left over", s.end-s.at)
		}
		s.end = end
		s.bodies++
	}
	return nil
}
