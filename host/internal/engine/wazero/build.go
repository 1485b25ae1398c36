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
	"github.com/wfhost/wfhost/host/internal/rewrite"
)

// Compile loads a module from the cache. If it is not there, or is damaged, it is compiled first.
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
	of := sha256.Sum256(fmt.Appendf(nil, "%x %d %s", s.Digest, artifact.Format, print))
	name := hex.EncodeToString(of[:16])
	defer m.turns.Take(name)() // others wait, and find it compiled
	mod, err := m.load(ctx, s.Digest, name)
	if err == nil || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, artifact.ErrDamaged) {
		return mod, err
	}
	wasm, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.build(ctx, wasm, name, filepath.Base(filepath.Dir(print))); err != nil {
		return nil, err
	}
	if mod, err = m.load(ctx, s.Digest, name); errors.Is(err, artifact.ErrDamaged) { // another host took its own over meanwhile
		mod, err = m.load(ctx, s.Digest, name)
	}
	if err != nil {
		return nil, fmt.Errorf("the module was compiled, and cannot be loaded: %w", err)
	}
	return mod, nil
}

// rewriting is what is done to each module. It belongs to artifact.Format.
var rewriting = rewrite.Options{Fuel: true, NaN: true, TableElements: abi.MaxTableElements}

// compileInMemory compiles where there is no cache.
func (m *machine) compileInMemory(ctx context.Context, s engine.Source) (engine.Module, error) {
	wasm, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	r, err := rewrite.Rewrite(wasm, rewriting)
	if err != nil {
		return nil, fmt.Errorf("rewrite: %w", err)
	}
	c, err := m.rt.CompileModule(ctx, r.Wasm)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	// The code of a function takes some four times as much as what it was compiled from.
	mod := &module{machine: m, digest: s.Digest, compiled: c, rewritten: *r, bytes: 5 * int64(len(r.Wasm))}
	mod.rewritten.Wasm = nil
	return mod, nil
}

// Build compiles a module into an empty folder, from where an engine takes it over.
func Build(ctx context.Context, wasm []byte, dir string) (err error) {
	r, err := rewrite.Rewrite(wasm, rewriting)
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
func (m *machine) build(ctx context.Context, wasm []byte, name, folder string) error {
	dir, remove, err := m.files.Scratch()
	if err != nil {
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
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
		return err
	}
	if err = m.files.Take(dir, name, folder); err != nil {
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
	}
	return nil
}

// load loads a module from the cache. Its error is os.ErrNotExist or artifact.ErrDamaged if the module is to be compiled.
func (m *machine) load(ctx context.Context, digest [sha256.Size]byte, name string) (*module, error) {
	a, replaced, err := m.files.Open(name)
	if err != nil {
		return nil, err
	}
	c, err := m.rt.CompileModule(ctx, a.Module.Wasm)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	// Had wazero not taken the code, it would have compiled the skeleton, and written that.
	if err := replaced(); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	mod := &module{machine: m, digest: digest, compiled: c, rewritten: a.Module, bytes: a.Code.Bytes + int64(len(a.Module.Wasm))}
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
