// Package validate bounds a module before any engine sees it. Engines trust the counts that a module declares: a file
// of 14 bytes can exhaust the memory of the process, and a file of 5 kB can occupy a compiler for ten seconds. The
// scanner reads a module once, from front to back. Its allocations never depend on claimed sizes. It refuses modules
// that cannot be workflows with a sentence that names the rule, the limit and the offset. It does not check types:
// the engine does.
//
// The format is described in the WebAssembly Core Specification 2.0, chapter 5.
package validate

import (
	"bytes"
	"unicode/utf8"

	"github.com/wfhost/wfhost/abi"
)

// Module describes a scanned module.
type Module struct {
	EntryPoint    string // exported function to call: workflow_run, run or _start
	HasInitialize bool
	HasStart      bool // has a start section
	HasStep       bool
	HasDescribe   bool
	HasThaw       bool
	ImportsWASI   bool
	MemoryPages   uint32 // initial size
	Functions     int    // defined, without imports
	Bytes         int
}

// Section names by id, which is also their order, except for data count.
var sectionNames = [...]string{"custom", "type", "import", "function", "table", "memory", "global", "export", "start",
	"element", "code", "data", "data count"}

// order is the position of each section; data count comes between element and code.
var order = [...]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 10}

type scanner struct {
	reader
	m        Module
	types    []abi.Signature
	imported []uint32 // type of each imported function
	defined  []uint32 // type of each function of the module
	memories int
	tables   int
	globals  int
	bodies   int
	custom   int
	segments int     // of data
	promised int     // the number in the data count section
	sums     sums    // over the functions so far
	open     []block // of the previous function, for reuse
	elements int     // in all segments
	exports  map[string]export
}

type export struct {
	kind  byte
	index uint32
}

// Scan checks a module. The error is a *RejectError.
func Scan(wasm []byte) (*Module, error) {
	return (&scanner{reader: reader{b: wasm, end: len(wasm)}, exports: map[string]export{}}).scan()
}

func (s *scanner) scan() (*Module, error) {
	s.m.Bytes = len(s.b)
	if err := s.header(); err != nil {
		return nil, err
	}
	last := 0
	for s.at < len(s.b) {
		s.end = len(s.b)
		id, err := s.byte("a section")
		if err != nil {
			return nil, err
		}
		if int(id) >= len(sectionNames) {
			return nil, s.bad("unknown section", "its id is %d", id)
		}
		if id != 0 {
			if order[id] <= last {
				return nil, s.bad("sections are out of order", "the %s section comes too late or twice", sectionNames[id])
			}
			last = order[id]
		}
		if err := s.section(id); err != nil {
			return nil, err
		}
	}
	if s.bodies != len(s.defined) {
		return nil, s.bad("the module is truncated", "%d functions are declared, %d have code", len(s.defined), s.bodies)
	}
	if s.promised > s.segments {
		return nil, s.bad("the module is truncated", "%d data segments are announced, there are %d", s.promised, s.segments)
	}
	return &s.m, s.check()
}

// header checks the magic number and the version. The error suggests what else the bytes may be.
func (s *scanner) header() error {
	b := s.b
	if len(b) > abi.MaxModuleBytes {
		return s.over("the module is too large", abi.MaxModuleBytes, int64(len(b)))
	}
	if len(b) < 4 || string(b[:4]) != "\x00asm" {
		return s.bad("this is not a WebAssembly module", "%s", looksLike(b))
	}
	if len(b) < 8 {
		return s.truncated("the header")
	}
	switch string(b[4:8]) {
	case "\x01\x00\x00\x00":
	case "\x0d\x00\x01\x00", "\x0a\x00\x01\x00", "\x0b\x00\x01\x00", "\x0c\x00\x01\x00":
		return s.bad("this is a component", "a workflow is a core module; compile without the component step")
	default:
		return s.bad("unknown version of WebAssembly", "its bytes are % x", b[4:8])
	}
	s.at = 8
	return nil
}

func looksLike(b []byte) string {
	switch {
	case len(b) == 0:
		return "the file is empty"
	case bytes.HasPrefix(bytes.TrimSpace(b[:min(len(b), 64)]), []byte("(module")):
		return "it looks like the text format; translate it with wat2wasm"
	case bytes.HasPrefix(b, []byte("\x7fELF")):
		return "it is a native program; compile for WebAssembly, such as GOOS=wasip1 GOARCH=wasm"
	case bytes.HasPrefix(b, []byte("\x1f\x8b")):
		return "it is compressed with gzip"
	case bytes.HasPrefix(b, []byte("#!")):
		return "it is a script"
	case utf8.Valid(b[:min(len(b), 256)]):
		return "it is text"
	}
	return "it does not begin with the bytes 00 61 73 6d"
}

func (s *scanner) section(id byte) error {
	name := sectionNames[id]
	n, err := s.u32("the size of the " + name + " section")
	if err != nil {
		return err
	}
	if int64(n) > int64(s.left()) {
		return s.bad("the module is truncated", "the %s section claims %d bytes, %d are left", name, n, s.left())
	}
	s.end = s.at + int(n)
	end := s.end
	switch id {
	case 0:
		s.custom += int(n)
		if s.custom > maxCustomBytes {
			return s.over("custom sections are too large", maxCustomBytes, int64(s.custom))
		}
		err = checkCustom(s.reader)
		s.at = end
	case 1:
		err = s.typeSection()
	case 2:
		err = s.importSection()
	case 3:
		err = s.functionSection()
	case 4:
		err = s.tableSection()
	case 5:
		err = s.memorySection()
	case 6:
		err = s.globalSection()
	case 7:
		err = s.exportSection()
	case 8:
		s.m.HasStart = true
		_, err = s.u32("the start function")
	case 9:
		err = s.elementSection()
	case 10:
		err = s.codeSection()
	case 11:
		err = s.dataSection()
	case 12:
		var n uint32
		n, err = s.u32("the data count")
		s.promised = int(n)
	}
	if err != nil {
		return err
	}
	if s.at != end {
		return s.bad("a section has the wrong size", "%d bytes of the %s section are left over", end-s.at, name)
	}
	return nil
}

// check checks that the module can be a workflow.
func (s *scanner) check() error {
	if s.memories == 0 {
		return s.bad("the module has no memory", "a workflow defines one memory and exports it as %q", abi.ExportMemory)
	}
	if e, ok := s.exports[abi.ExportMemory]; !ok || e.kind != kindMemory {
		return s.bad("the memory is not exported", "it must be exported as %q", abi.ExportMemory)
	}
	for _, want := range []struct {
		name string
		sig  abi.Signature
		has  *bool
	}{
		{abi.ExportRun, abi.Signature{Results: []abi.Type{abi.I32}}, nil},
		{abi.ExportRunShort, abi.Signature{Results: []abi.Type{abi.I32}}, nil},
		{abi.ExportStart, abi.Signature{}, nil},
		{abi.ExportInitialize, abi.Signature{}, &s.m.HasInitialize},
		{abi.ExportStep, abi.Signature{Results: []abi.Type{abi.I32}}, &s.m.HasStep},
		{abi.ExportDescribe, abi.Signature{}, &s.m.HasDescribe},
		{abi.ExportThaw, abi.Signature{Results: []abi.Type{abi.I32}}, &s.m.HasThaw},
	} {
		e, ok := s.exports[want.name]
		if !ok {
			continue
		}
		got, ok := s.signature(e)
		if !ok || !got.Equal(want.sig) {
			return s.bad("an export has the wrong type", "%s must be a function of type %s, it is %s", want.name, want.sig, got)
		}
		if want.has != nil {
			*want.has = true
		} else if s.m.EntryPoint == "" {
			s.m.EntryPoint = want.name
		}
	}
	if s.m.EntryPoint == "" {
		return s.bad("the module has no entry point", "it must export %s, %s or %s", abi.ExportRun, abi.ExportRunShort,
			abi.ExportStart)
	}
	return s.checkCommand()
}

// checkCommand refuses a command that has another entry point or _initialize: the host would never call its _start,
// which sets up the program.
func (s *scanner) checkCommand() error {
	_, command := s.exports[abi.ExportStart]
	switch {
	case command && s.m.HasInitialize:
		return s.bad("the module is both a command and a library", "it exports %s and %s", abi.ExportStart, abi.ExportInitialize)
	case command && s.m.EntryPoint != abi.ExportStart:
		return s.bad("the module has two entry points", "it exports %s and %s; a library (clang: -mexec-model=reactor, Go: "+
			"-buildmode=c-shared) has no %[2]s, a command no %[1]s", s.m.EntryPoint, abi.ExportStart)
	}
	return nil
}

// signature returns the type of an exported function.
func (s *scanner) signature(e export) (abi.Signature, bool) {
	if e.kind != kindFunction {
		return abi.Signature{}, false
	}
	var t uint32
	switch i := int(e.index); {
	case i < len(s.imported):
		t = s.imported[i]
	case i < len(s.imported)+len(s.defined):
		t = s.defined[i-len(s.imported)]
	default:
		return abi.Signature{}, false
	}
	return s.types[t], true
}
