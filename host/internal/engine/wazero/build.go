package wazero

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/tetratelabs/wazero"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/artifact"
	"github.com/wfhost/wfhost/host/internal/wasm/instrument"
)

// Compile loads a module from the cache. If it is not there, or is damaged, it is put there first: it is compiled, or given the
// code of a module that was.
//
// wazero keeps machine code in a folder for its version, each file named by a hash of the module and of what the processor can
// do. Here that is the hash of the skeleton: wazero finds the code of a module of which it has read no more than that.
func (m *machine) Compile(ctx context.Context, s engine.Source) (engine.Module, error) {
	if m.cfg.CacheDir == "" || m.cfg.Interpreter {
		return m.compileInMemory(ctx, s)
	}
	print, err := m.compilerPrint(ctx)
	if err != nil {
		return nil, err
	}
	name := fileName(ofModule, s.Digest, print)
	defer m.turns.Take(name)() // others wait, and find it compiled
	mod, err := m.load(ctx, s.Digest, name)
	if err == nil || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, artifact.ErrDamaged) {
		return mod, err
	}
	wasm, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.store(ctx, wasm, name, print); err != nil {
		return nil, err
	}
	mod, err = m.load(ctx, s.Digest, name)
	if errors.Is(err, artifact.ErrDamaged) { // another host took its own over meanwhile
		mod, err = m.load(ctx, s.Digest, name)
	}
	if err != nil {
		return nil, fmt.Errorf("the module was compiled, and cannot be loaded: %w", err)
	}
	return mod, nil
}

// What an artifact is of, in the name of its file.
const (
	ofModule = ""      // a module, by its digest
	ofCode   = "code " // all modules of the same code, by the sum that artifact.Cut returns; it has no data
)

// fileName returns the name of an artifact: a hash of all that it depends on.
func fileName(kind string, sum [sha256.Size]byte, print string) string {
	of := sha256.Sum256(fmt.Appendf(nil, "%s%x %d %s", kind, sum, artifact.Format, print))
	return hex.EncodeToString(of[:16])
}

// store puts a module into the cache, under a name. It is not compiled if another module of the same code was, which differs in
// its data: the artifact of that code and the data of this module are its artifact.
func (m *machine) store(ctx context.Context, wasm []byte, name, print string) error {
	if err := m.makeRoom(); err != nil {
		return unavailable(err)
	}
	folder := filepath.Base(filepath.Dir(print))
	code, data, ok := artifact.Cut(wasm)
	if !ok {
		_, err := m.build(ctx, wasm, name, folder)
		return err
	}
	shared := fileName(ofCode, code, print)
	defer m.turns.Take(shared)() // after the turn of the module, always: nobody waits for the other order
	a, _, err := m.files.Open(shared)
	switch {
	case err == nil:
		a.Module.Data = data
		return m.put(name, a)
	case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, artifact.ErrDamaged):
		return err
	}
	a, err = m.build(ctx, wasm, name, folder)
	if err != nil || a.Module.Refusal != "" { // then its data was compiled with it
		return err
	}
	a.Module.Data = nil
	return m.put(shared, a)
}

// put writes an artifact whose code is there already.
func (m *machine) put(name string, a *artifact.Artifact) error {
	bytes, err := m.files.Put(name, a)
	m.unseen.Add(-bytes)
	return unavailable(err)
}

// cacheParts is how many parts the bound of the cache has. One of them may be written before all files are looked at again: there
// are tens of thousands if modules are small. A full cache loses one at a time, so that it is not looked at more often.
const cacheParts = 16

// makeRoom keeps the cache within its bound. Other hosts that share it do the same. While one goroutine looks at the files,
// the others go on.
func (m *machine) makeRoom() error {
	most := m.cfg.CacheBytes
	if most <= 0 || m.unseen.Load() > 0 || !m.looking.TryLock() {
		return nil
	}
	defer m.looking.Unlock()
	unseen := m.unseen.Load()
	if unseen > 0 { // another goroutine has just looked
		return nil
	}
	has, err := m.files.Bound(most, most-most/cacheParts)
	if err != nil {
		return err
	}
	m.unseen.Add(min(most/cacheParts, most-has) - unseen) // bytes written in the meantime still count
	return nil
}

// Forget removes what the cache has of a module. It waits for nobody: whoever loads or compiles the module meanwhile compiles it
// again, or leaves it in the cache.
func (m *machine) Forget(ctx context.Context, digest [sha256.Size]byte) error {
	if m.files == "" || m.cfg.Interpreter {
		return nil
	}
	print, err := m.compilerPrint(ctx)
	if err != nil {
		return err
	}
	return m.files.Forget(fileName(ofModule, digest, print))
}

// unavailable makes an error of a file one that says nothing of the module.
func unavailable(err error) error {
	if err != nil {
		err = fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
	}
	return err
}

// rewriting is what is done to each module. It belongs to artifact.Format.
var rewriting = instrument.Options{Fuel: true, NaN: true, TableElements: abi.MaxTableElements}

// compileInMemory compiles where there is no cache.
func (m *machine) compileInMemory(ctx context.Context, s engine.Source) (engine.Module, error) {
	wasm, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	r, err := instrument.Rewrite(wasm, rewriting)
	if err != nil {
		return nil, fmt.Errorf("rewrite: %w", err)
	}
	c, err := m.rt.CompileModule(ctx, r.Wasm)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	// The code of a function takes some four times as much as what it was compiled from.
	mod := &module{machine: m, digest: s.Digest, compiled: c, rewritten: *r, bytes: 5 * int64(len(r.Wasm)),
		code: m.codeOf(artifact.File{})}
	mod.rewritten.Wasm = nil
	return mod, nil
}

// Build compiles a module into an empty folder, from where an engine takes it over.
func Build(ctx context.Context, wasm []byte, dir string) (err error) {
	r, err := instrument.Rewrite(wasm, rewriting)
	if err != nil {
		return fmt.Errorf("rewrite: %w", err)
	}
	skeleton, err := artifact.Skeleton(r.Wasm)
	if err != nil {
		return err
	}
	code, err := compileTo(ctx, filepath.Join(dir, "code"), r.Wasm)
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	named, err := compileTo(ctx, filepath.Join(dir, "skeleton"), skeleton)
	if err != nil {
		return fmt.Errorf("compile the skeleton: %w", err)
	}
	a := artifact.Artifact{Module: *r}
	a.Module.Wasm = skeleton
	return a.Write(dir, code, filepath.Base(filepath.Dir(named)), filepath.Base(named))
}

// compileTo compiles a module into an empty folder, and returns the path of the only file there.
func compileTo(ctx context.Context, dir string, wasm []byte) (path string, err error) {
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, cache.Close(ctx)) }()
	rt := wazero.NewRuntimeWithConfig(ctx, runtimeConfig(false).WithCompilationCache(cache))
	defer func() { err = errors.Join(err, rt.Close(ctx)) }()
	if _, err := rt.CompileModule(ctx, wasm); err != nil {
		return "", err
	}
	files := 0
	err = filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			path = at
			files++
		}
		return err
	})
	if err == nil && files != 1 {
		err = fmt.Errorf("the compiler wrote %d files in place of one", files)
	}
	return path, err
}

// largeModule is the size from which compiling a module leaves so much garbage that a collection pays.
const largeModule = 1 << 20

// build has a module compiled into the cache, by a compiler that keeps code in a folder of this name.
func (m *machine) build(ctx context.Context, wasm []byte, name, folder string) (*artifact.Artifact, error) {
	dir, remove, err := m.files.Scratch()
	if err != nil {
		return nil, unavailable(err)
	}
	defer remove()
	if m.cfg.Build != nil {
		err = m.cfg.Build(ctx, wasm, dir)
	} else {
		err = Build(ctx, wasm, dir)
		if len(wasm) >= largeModule { // a compiler needs twenty times as much as the module has
			debug.FreeOSMemory()
		}
	}
	if err != nil {
		return nil, err
	}
	a, bytes, err := m.files.Take(dir, name, folder)
	m.unseen.Add(-bytes)
	return a, unavailable(err)
}

// load loads a module from the cache. Its error is os.ErrNotExist or artifact.ErrDamaged if the module is to be compiled.
func (m *machine) load(ctx context.Context, digest [sha256.Size]byte, name string) (*module, error) {
	a, replaced, err := m.files.Open(name)
	if err != nil {
		return nil, err
	}
	// wazero keeps what it has loaded before it is ready, and a second module of that code would be given it as it is, without
	// the entry points of its functions: calling it is a panic.
	end := m.turns.Take(a.Code.Name) // after the turn of the artifact
	c, err := m.rt.CompileModule(ctx, a.Module.Wasm)
	end()
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	// Had wazero not taken the code, it would have compiled the skeleton, and written that.
	if err := replaced(); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	mod := &module{machine: m, digest: digest, compiled: c, rewritten: a.Module, bytes: int64(len(a.Module.Wasm)),
		code: m.codeOf(a.Code)}
	mod.rewritten.Wasm = nil
	return mod, nil
}

// emptyModule is the shortest module.
const emptyModule = "\x00asm\x01\x00\x00\x00"

// compilerPrint returns what differs between compilers and processors, one of which cannot use the code of the other: where
// wazero puts the code of the empty module.
func (m *machine) compilerPrint(ctx context.Context) (print string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fingerprint != "" {
		return m.fingerprint, nil
	}
	dir, remove, err := m.files.Scratch()
	if err != nil {
		return "", err
	}
	defer remove()
	path, err := compileTo(ctx, filepath.Join(dir, "empty"), []byte(emptyModule))
	if err != nil {
		return "", fmt.Errorf("compile the empty module: %w", err)
	}
	m.fingerprint = strings.TrimPrefix(path, filepath.Join(dir, "empty"))
	return m.fingerprint, nil
}
