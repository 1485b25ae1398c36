// Package engine has QuickJS as a guest of wfhost, and makes modules from it and a program. All programs use the same engine
// and differ in their data alone, so a host compiles its code once. README.md explains how the engine is built.
package engine

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wfhost/wfhost/internal/segment"
)

//go:embed engine.wasm.gz
var packed []byte

// Wasm returns the engine without a program. The caller must not change it.
var Wasm = sync.OnceValue(func() []byte {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(err) // the embedded file is broken
	}
	wasm, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	return wasm
})

// Place is the source of a part of a script. The part begins at Line and Column of the script and ends at the next Place.
// Lines and columns count from 0.
type Place struct {
	Line, Column     uint32
	File             uint32 // index into Script.Files, plus 1; 0 if there is no source
	ToLine, ToColumn uint32
}

// placeBytes is the size of a Place in the engine's memory.
const placeBytes = 20

// Script is a program in one script.
type Script struct {
	Text   []byte
	Places []Place  // in the order of the script
	Files  []string // names of source files, as stacks show them
}

// cache holds the compiled engine: in the user's cache folder if possible, else in the memory of this process.
var cache = sync.OnceValue(func() wazero.CompilationCache {
	if dir, err := os.UserCacheDir(); err == nil {
		if c, err := wazero.NewCompilationCacheWithDir(filepath.Join(dir, "wfhost", "javascript")); err == nil {
			return c
		}
	}
	return wazero.NewCompilationCache()
})

// Make returns a module that runs a script. If the script cannot be compiled, it returns the engine's error.
func Make(ctx context.Context, s Script) ([]byte, error) {
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(cache()))
	defer func() { _ = r.Close(ctx) }() // an error has no consequences
	var stderr bytes.Buffer
	m, err := start(ctx, r, &stderr)
	if err != nil {
		return nil, fmt.Errorf("start the JavaScript engine: %w %s", err, stderr.Bytes())
	}
	c := &compiler{ctx: ctx, m: m}
	code := c.compile(s)
	at, most := c.call("wfhost_program"), c.call("wfhost_program_bytes")
	if c.err != nil {
		return nil, errors.Join(c.err, errors.New(strings.TrimSpace(stderr.String())))
	}
	var files []byte
	for _, f := range s.Files {
		files = append(append(files, f...), 0)
	}
	if n := len(code) + len(files); n > int(most) {
		return nil, fmt.Errorf("the program has %d bytes when it is compiled, the limit is %d", n, most)
	}
	program := binary.LittleEndian.AppendUint32(nil, uint32(len(code)))
	program = binary.LittleEndian.AppendUint32(program, uint32(len(files)))
	program = append(append(program, code...), files...)
	return segment.Append(Wasm(), segment.Drop, program, func([]byte) (uint32, error) { return at, nil })
}

// start instantiates the engine. Its imports are stand-ins: the engine does not call the host while it compiles.
func start(ctx context.Context, r wazero.Runtime, stderr io.Writer) (api.Module, error) {
	compiled, err := r.CompileModule(ctx, Wasm())
	if err != nil {
		return nil, err
	}
	hosts := map[string]wazero.HostModuleBuilder{}
	for _, f := range compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		if hosts[module] == nil {
			hosts[module] = r.NewHostModuleBuilder(module)
		}
		hosts[module].NewFunctionBuilder().WithGoModuleFunction(standIn(name, len(f.ResultTypes()) > 0, stderr), f.ParamTypes(),
			f.ResultTypes()).Export(name)
	}
	for _, b := range hosts {
		if _, err := b.Instantiate(ctx); err != nil {
			return nil, err
		}
	}
	return r.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
}

// standIn returns an imported function with the behavior that the engine needs while it compiles: the clock is always 0,
// random numbers are 0, and output goes to stderr. Other functions panic.
func standIn(name string, answers bool, stderr io.Writer) api.GoModuleFunc {
	return func(_ context.Context, m api.Module, stack []uint64) {
		switch name {
		case "clock_time_get":
			m.Memory().WriteUint64Le(uint32(stack[2]), 0)
		case "fd_write":
			writeTo(stderr, m.Memory(), stack)
		case "random", "random_get": // zeros
		default:
			panic("the engine called " + name + " while it compiled")
		}
		if answers {
			stack[0] = 0
		}
	}
}

// writeTo performs fd_write.
func writeTo(w io.Writer, memory api.Memory, stack []uint64) {
	total := uint32(0)
	for i := range uint32(stack[2]) {
		at, _ := memory.ReadUint32Le(uint32(stack[1]) + 8*i)
		n, _ := memory.ReadUint32Le(uint32(stack[1]) + 8*i + 4)
		b, _ := memory.Read(at, n)
		_, _ = w.Write(b) // a buffer in memory, which does not fail
		total += n
	}
	memory.WriteUint32Le(uint32(stack[3]), total)
}

// compiler calls the engine's functions. After the first error it calls no more.
type compiler struct {
	ctx context.Context
	m   api.Module
	err error
}

func (c *compiler) call(name string, args ...uint64) uint32 {
	if c.err != nil {
		return 0
	}
	out, err := c.m.ExportedFunction(name).Call(c.ctx, args...)
	if err != nil {
		c.err = err
		return 0
	}
	return uint32(out[0])
}

// errMemory is the error for a script that is too large to be compiled.
var errMemory = errors.New("the program is too large: the engine's memory does not suffice to compile it")

// put copies bytes into the engine's memory.
func (c *compiler) put(b []byte) uint64 {
	at := c.call("wfhost_allocate", uint64(len(b)))
	if c.err == nil && (at == 0 || !c.m.Memory().Write(at, b)) {
		c.err = errMemory
	}
	return uint64(at)
}

// compile returns the bytecode of a script.
func (c *compiler) compile(s Script) []byte {
	table := make([]byte, 0, placeBytes*len(s.Places)+1)
	for _, p := range s.Places {
		for _, n := range []uint32{p.Line, p.Column, p.File, p.ToLine, p.ToColumn} {
			table = binary.LittleEndian.AppendUint32(table, n)
		}
	}
	text := c.put(append(bytes.Clone(s.Text), 0))
	places := c.put(append(table, 0)) // put needs at least one byte
	at := c.call("wfhost_compile", text, uint64(len(s.Text)), places, uint64(len(s.Places)))
	if c.err != nil {
		return nil
	}
	if at == 0 {
		c.err = errors.New(c.text(c.call("wfhost_error")))
		return nil
	}
	n, _ := c.m.Memory().ReadUint32Le(at)
	code, ok := c.m.Memory().Read(at+4, n)
	if !ok {
		c.err = errMemory
	}
	return bytes.Clone(code)
}

// text reads a string that ends with a zero byte.
func (c *compiler) text(at uint32) string {
	b, _ := c.m.Memory().Read(at, c.m.Memory().Size()-at)
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
