package validate

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
)

func leb(n uint64) []byte { return binary.AppendUvarint(nil, n) }

func cat(parts ...[]byte) (out []byte) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func sec(id byte, body ...[]byte) []byte {
	b := cat(body...)
	return cat([]byte{id}, leb(uint64(len(b))), b)
}

func vec(items ...[]byte) []byte { return cat(append([][]byte{leb(uint64(len(items)))}, items...)...) }

func str(s string) []byte { return cat(leb(uint64(len(s))), []byte(s)) }

var (
	head     = []byte("\x00asm\x01\x00\x00\x00")
	types    = sec(1, vec([]byte{0x60, 0, 1, 0x7f}, []byte{0x60, 0, 0}, []byte{0x60, 2, 0x7f, 0x7f, 1, 0x7e}))
	imports  = sec(2, vec(cat(str("workflow_v1"), str("input"), []byte{0, 2})))
	funcs    = sec(3, vec(leb(0)))
	tables   = sec(4, vec([]byte{0x70, 1, 1, 2}))
	memory   = sec(5, vec([]byte{0, 1}))
	globals  = sec(6, vec([]byte{0x7f, 1, 0x41, 5, 0x0b}))
	exports  = sec(7, vec(cat(str("memory"), []byte{2, 0}), cat(str("workflow_run"), []byte{0, 1})))
	elements = sec(9, vec([]byte{0, 0x41, 0, 0x0b, 1, 0}, []byte{1, 0, 1, 0}, []byte{5, 0x70, 1, 0xd2, 0, 0x0b},
		[]byte{2, 0, 0x41, 0, 0x0b, 0, 1, 0}))
	count12 = sec(12, leb(2))
	datas   = sec(11, vec([]byte{0, 0x41, 0, 0x0b, 1, 'x'}, []byte{1, 1, 'y'}, []byte{2, 0, 0x41, 0, 0x0b, 0}))
)

// named returns a name section with one subsection.
func named(id byte, content []byte) []byte {
	return sec(0, str("name"), []byte{id}, leb(uint64(len(content))), content)
}

// code returns a code section with one function that has these locals and instructions.
func code(locals []byte, instructions ...byte) []byte {
	b := cat(locals, instructions, []byte{0x0b})
	return sec(10, vec(cat(leb(uint64(len(b))), b)))
}

var plain = code([]byte{0}, 0x41, 0)

func valid() []byte {
	return cat(head, sec(0, str("name"), []byte("anything")), types, imports, funcs, tables, memory, globals, exports, elements,
		count12, plain, datas)
}

// with returns a minimal module with another code section.
func with(c []byte) []byte { return cat(head, types, imports, funcs, memory, exports, c) }

func TestValid(t *testing.T) {
	m, err := Scan(valid())
	if err != nil {
		t.Fatal(err)
	}
	if m.EntryPoint != "workflow_run" || m.Functions != 1 || m.MemoryPages != 1 || m.ImportsWASI || m.HasStart {
		t.Fatalf("%+v", m)
	}
}

// TestTruncated cuts a module at every byte.
func TestTruncated(t *testing.T) {
	b := valid()
	for n := range b {
		if _, err := Scan(b[:n]); err == nil {
			t.Errorf("cut at %d: accepted", n)
		}
	}
}

func rep(n int, b ...byte) []byte {
	out := make([]byte, 0, n*len(b))
	for range n {
		out = append(out, b...)
	}
	return out
}

const huge = "\xff\xff\xff\xff\x0f"

// rejected lists modules with a part of the expected error.
func rejected() map[string]struct {
	wasm []byte
	want string
} {
	type c = struct {
		wasm []byte
		want string
	}
	export := func(items ...[]byte) []byte {
		return cat(head, types, imports, funcs, memory, sec(7, vec(items...)), plain)
	}
	mem, run := cat(str("memory"), []byte{2, 0}), cat(str("workflow_run"), []byte{0, 1})
	imp := func(module, name string, kind, typ byte) []byte {
		return cat(head, types, sec(2, vec(cat(str(module), str(name), []byte{kind, typ}))))
	}
	return map[string]c{
		"empty":            {nil, "the file is empty"},
		"text":             {[]byte("hello"), "it is text"},
		"wat":              {[]byte("  (module)"), "wat2wasm"},
		"elf":              {[]byte("\x7fELF\x02\x01\x01\x00"), "native program"},
		"gzip":             {[]byte("\x1f\x8b\x08\x00"), "gzip"},
		"script":           {[]byte("#!/bin/sh\n"), "script"},
		"binary":           {[]byte{0xff, 0xfe, 0x00, 0x80}, "does not begin"},
		"short head":       {[]byte("\x00asm\x01"), "header is cut off"},
		"component":        {[]byte("\x00asm\x0d\x00\x01\x00"), "component"},
		"version 2":        {[]byte("\x00asm\x02\x00\x00\x00"), "unknown version"},
		"unknown section":  {cat(head, []byte{13, 0}), "unknown section"},
		"twice":            {cat(head, types, types), "out of order"},
		"order":            {cat(head, memory, types), "out of order"},
		"long section":     {cat(head, []byte{1, 100}), "claims 100 bytes"},
		"left over":        {cat(head, sec(1, vec(), []byte{0})), "left over"},
		"types":            {cat(head, []byte("\x01\x05"+huge)), "too many types"},
		"types short":      {cat(head, sec(1, leb(100))), "100 types are declared"},
		"params":           {cat(head, sec(1, []byte{1, 0x60}, []byte(huge))), "too many parameters"},
		"results":          {cat(head, sec(1, []byte{1, 0x60, 0}, []byte(huge))), "too many results"},
		"imports":          {cat(head, []byte("\x02\x05"+huge)), "too many imports"},
		"functions":        {cat(head, []byte("\x03\x05"+huge)), "too many functions"},
		"tables":           {cat(head, []byte("\x04\x05"+huge)), "too many tables"},
		"memories":         {cat(head, sec(5, vec([]byte{0, 1}, []byte{0, 1}))), "too many memories"},
		"globals":          {cat(head, []byte("\x06\x05"+huge)), "too many globals"},
		"exports":          {cat(head, []byte("\x07\x05"+huge)), "too many exports"},
		"elements":         {cat(head, []byte("\x09\x05"+huge)), "too many element segments"},
		"element items":    {cat(head, sec(9, []byte{1, 1, 0}, []byte(huge))), "too many elements"},
		"bodies":           {cat(head, []byte("\x0a\x05"+huge)), "too many function bodies"},
		"segments":         {cat(head, []byte("\x0b\x05"+huge)), "too many data segments"},
		"name length":      {cat(head, sec(2, []byte{1}, []byte(huge))), "claims 4294967295 bytes"},
		"long name":        {cat(head, sec(2, []byte{1}, str(strings.Repeat("x", maxNameBytes+1)))), "too long"},
		"name utf8":        {cat(head, sec(2, []byte{1}, str("\xff"), str("a"), []byte{0, 0})), "UTF-8"},
		"leb":              {cat(head, []byte("\x01\xff\xff\xff\xff\xff\x0f")), "32 bits"},
		"form":             {cat(head, sec(1, vec([]byte{0x5f, 0, 0}))), "form of type"},
		"value type":       {cat(head, sec(1, vec([]byte{0x60, 1, 0x40, 0}))), "unknown value type"},
		"unknown import":   {imp("env", "memory_thing", 0, 0), "env.memory_thing; the host supplies workflow_v1, wasi_snapshot_preview1, and of env abort and seed"},
		"import type":      {imp("workflow_v1", "now", 0, 0), "the module says () -> i32"},
		"import memory":    {imp("env", "memory", 2, 0), "only functions"},
		"import bad index": {imp("workflow_v1", "now", 0, 9), "unknown type"},
		"table type":       {cat(head, sec(4, vec([]byte{0x7f, 0, 1}))), "type of table"},
		"table size":       {cat(head, sec(4, vec(cat([]byte{0x70, 0}, leb(abi.MaxTableElements+1))))), "tables are too large"},
		"shared":           {cat(head, sec(5, vec([]byte{3, 1, 2}))), "shared"},
		"memory64":         {cat(head, sec(5, vec([]byte{4, 1}))), "64-bit"},
		"memory size":      {cat(head, sec(5, vec(cat([]byte{0}, leb(maxPages+1))))), "memory is too large"},
		"max below min":    {cat(head, sec(5, vec([]byte{1, 2, 1}))), "below the minimum"},
		"export kind":      {cat(head, sec(7, vec(cat(str("x"), []byte{9, 0})))), "kind of export"},
		"export twice":     {cat(head, sec(7, vec(mem, mem))), "one name"},
		"no memory":        {cat(head, types, imports, funcs, sec(7, vec(run)), plain), "no memory"},
		"hidden memory":    {export(run), "not exported"},
		"no entry":         {export(mem), "no entry point"},
		"entry type":       {export(mem, cat(str("workflow_run"), []byte{0, 0})), "wrong type"},
		"entry kind":       {export(mem, cat(str("run"), []byte{3, 0})), "wrong type"},
		"entry beyond":     {export(mem, cat(str("run"), []byte{0, 77})), "wrong type"},
		"both":             {cat(head, types, sec(3, vec(leb(1))), memory, sec(7, vec(mem, cat(str("_start"), []byte{0, 0}), cat(str("_initialize"), []byte{0, 0}))), code([]byte{0})), "command and a library"},
		"two entries":      {cat(head, types, sec(3, vec(leb(0), leb(1))), memory, sec(7, vec(mem, cat(str("run"), []byte{0, 0}), cat(str("_start"), []byte{0, 1}))), sec(10, vec(cat([]byte{4, 0, 0x41, 0}, []byte{0x0b}), []byte{2, 0, 0x0b}))), "it exports run and _start"},
		"no bodies":        {cat(head, types, imports, funcs, memory, exports), "have code"},
		"bodies differ":    {with(sec(10, vec(cat([]byte{2, 0, 0x0b}), cat([]byte{2, 0, 0x0b})))), "differ in number"},
		"body size":        {with(sec(10, []byte{1}, leb(maxBodyBytes+1), make([]byte, 10))), "function is too large"},
		"body cut":         {with(sec(10, []byte{1, 50, 0, 0})), "cut off"},
		"body left over":   {with(sec(10, []byte{1, 4, 0, 0x0b, 0x0b, 0x0b})), "left over"},
		"locals":           {with(code(cat([]byte{1}, []byte(huge), []byte{0x7f}))), "too many locals"},
		"locals just over": {with(code(cat([]byte{1}, leb(maxLocals+1), []byte{0x7f}))), "too many locals"},
		"nesting":          {with(code([]byte{0}, rep(maxNesting, 0x02, 0x40)...)), "nested"},
		"br_table":         {with(code([]byte{0}, cat([]byte{0x0e}, leb(maxBranchTargets+1))...)), "br_table"},
		"block of ref":     {with(code([]byte{0}, 0x02, 0x63, 0x00, 0x0b)), "type 0x63"},
		"loop of exnref":   {with(code([]byte{0}, 0x03, 0x69, 0x0b)), "type 0x69"},
		"block, long ref":  {with(code([]byte{0}, 0x02, 0xe3, 0x7f, 0x00, 0x0b)), "neither a value's nor an index"},
		"block's type":     {with(code([]byte{0}, 0x02, 0x90, 0xce, 0x00, 0x0b)), "the type of a block"},
		"null of an index": {with(code([]byte{0}, 0xd0, 0x00)), "type 0x00"},
		"exception":        {with(code([]byte{0}, 0x06, 0x40)), "unknown instruction"},
		"tail call":        {with(code([]byte{0}, 0x12, 0)), "unknown instruction"},
		"atomics":          {with(code([]byte{0}, 0xfe, 0)), "unknown instruction"},
		"fc":               {with(code([]byte{0}, 0xfc, 18)), "unknown instruction"},
		"relaxed":          {with(code([]byte{0}, 0xfd, 0x80, 0x02)), "relaxed"},
		"const too long":   {with(code([]byte{0}, 0x41, 0x80, 0x80, 0x80, 0x80, 0x80, 0)), "32 bits"},
		"init expression":  {cat(head, sec(6, []byte{1, 0x7f, 0}, rep(maxInitExpression, 0x01), []byte{0x0b})), "cut off"},
		"element flags":    {cat(head, sec(9, vec([]byte{8, 0}))), "kind of element"},
		"data flags":       {cat(head, sec(11, vec([]byte{3, 0}))), "kind of data"},
		"data cut":         {cat(head, sec(11, vec([]byte{1, 99}))), "cut off"},
		"custom":           {cat(head, sec(0, make([]byte, maxCustomBytes+1))), "custom sections"},
		"custom name":      {cat(head, sec(0, str("a\xff"))), "a name is not UTF-8: the name of a custom section"},
		"custom, cut":      {cat(head, sec(0, []byte{9, 'n'})), "the name of a custom section claims 9 bytes"},
		"module's name":    {cat(head, named(0, str("\xff"))), "a name is not UTF-8: the name of the module"},
		"function's name":  {cat(head, named(1, vec(cat([]byte{0}, str("f")), cat([]byte{1}, str("\xc0"))))), "a name is not UTF-8: the name of a function"},
		"local's name":     {cat(head, named(2, vec(cat([]byte{0}, vec(cat([]byte{0}, str("\xed\xa0\x80"))))))), "a name is not UTF-8: the name of a local"},
		"tables together":  {cat(head, sec(4, vec([]byte{0x70, 0, 1}, cat([]byte{0x70, 0}, leb(abi.MaxTableElements))))), "tables are too large"},
		"all elements": {cat(head, sec(9, vec(cat([]byte{1, 0}, leb(abi.MaxTableElements), make([]byte, abi.MaxTableElements)), []byte{1, 0, 1, 0}))),
			"element segments have too many elements"},
		"too large": {make([]byte, abi.MaxModuleBytes+1), "too large"},
	}
}

func TestRejected(t *testing.T) {
	for name, c := range rejected() {
		_, err := Scan(c.wasm)
		var r *RejectError
		if !errors.As(err, &r) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "at byte ") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The error for a module whose initial memory exceeds the limit has both sizes, in pages.
func TestMemoryAtTheStart(t *testing.T) {
	_, err := Scan(rejected()["memory size"].wasm)
	if err == nil || !strings.Contains(err.Error(), "the memory is too large at the start, in pages of 64 KiB (limit 1024, got 1025)") {
		t.Error(err)
	}
}

func TestBoundsAreReached(t *testing.T) {
	for name, c := range map[string][]byte{
		"locals":   code(cat([]byte{1}, leb(maxLocals), []byte{0x7f}), 0x41, 0),
		"nesting":  code([]byte{0}, append(rep(maxNesting-1, 0x02, 0x40), rep(maxNesting-1, 0x0b)...)...),
		"loops":    code(cat([]byte{1}, leb(1000), []byte{0x7f}), rep(maxLoopValues/1000, 0x03, 0x40, 0x0b)...),
		"br_table": code([]byte{0}, cat([]byte{0x0e}, leb(maxBranchTargets), make([]byte, maxBranchTargets+1))...),
		"all instructions": code([]byte{0}, 0x00, 0x01, 0x0c, 0, 0x0d, 0, 0x0f, 0x10, 0, 0x11, 0, 0, 0x1a, 0x1b, 0x1c, 1, 0x7f, 0x20, 0, 0x28, 2, 0,
			0x3f, 0, 0x40, 0, 0x41, 0, 0x42, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0x43, 0, 0, 0, 0, 0x44, 0, 0, 0, 0, 0, 0, 0, 0,
			0x6a, 0xc4, 0xd0, 0x70, 0xd1, 0xd2, 0, 0xfc, 0, 0xfc, 8, 0, 0, 0xfc, 9, 0, 0xfc, 10, 0, 0, 0xfc, 11, 0, 0xfc, 12, 0, 0, 0xfc, 15, 0,
			0xfd, 0, 0, 0, 0xfd, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0xfd, 21, 0, 0xfd, 84, 0, 0, 0, 0xfd, 92, 0, 0, 0xfd, 0xff, 0x01,
			0x04, 0x40, 0x05, 0x0b),
	} {
		if _, err := Scan(with(c)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// goModule compiles a small Go program.
func goModule(t testing.TB, flags ...string) []byte {
	dir := t.TempDir()
	src := "package main\n\nimport \"fmt\"\n\n//go:wasmexport run\nfunc run() int32 { fmt.Println(\"x\"); return 0 }\n\nfunc main() { run() }\n"
	for name, text := range map[string]string{"main.go": src, "go.mod": "module m\n\ngo 1.26\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", append(append([]string{"build"}, flags...), "-o", "m.wasm", ".")...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "m.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGoModules(t *testing.T) {
	if m, err := Scan(goModule(t, "-buildmode=c-shared")); err != nil || m.EntryPoint != "run" || !m.HasInitialize || !m.ImportsWASI {
		t.Fatalf("%+v %v", m, err)
	}
	if m, err := Scan(goModule(t)); err == nil || !strings.Contains(err.Error(), "-buildmode=c-shared") { // run would find no run-time
		t.Fatalf("%+v %v", m, err)
	}
}

func FuzzScan(f *testing.F) {
	f.Add(valid())
	for _, c := range rejected() {
		if len(c.wasm) < 1000 {
			f.Add(c.wasm)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Scan(b)
		var r *RejectError
		if (m == nil || err != nil) && !errors.As(err, &r) {
			t.Fatalf("%v", err)
		}
	})
}

func BenchmarkScan(b *testing.B) {
	wasm := goModule(b, "-buildmode=c-shared")
	b.SetBytes(int64(len(wasm)))
	for b.Loop() {
		if _, err := Scan(wasm); err != nil {
			b.Fatal(err)
		}
	}
}
