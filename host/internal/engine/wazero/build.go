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

// Compile loads a module from the cache. If the module is missing or damaged there, Compile first compiles it, or
// reuses the code of a compiled module that differs only in its data.
//
// wazero stores machine code in a folder for its version, in files named by a hash of the module and of the
// processor's features. The cache names a file by the hash of the skeleton: wazero finds the code of a module
// although it only read the skeleton.
func (m *machine) Compile(ctx context.Context, s engine.Source) (engine.Module, error) {
	if m.cfg.CacheDir == "" || m.cfg.Interpreter {
		return m.compileInMemory(ctx, s)
	}
	print, err := m.compilerPrint(ctx)
	if err != nil {
		return nil, err
	}
	name := fileName(ofModule, s.Digest, print)
	defer m.turns.Take(name)() // concurrent callers wait, and find it compiled
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
	if errors.Is(err, artifact.ErrDamaged) { // another host that shares the cache has replaced it meanwhile
		mod, err = m.load(ctx, s.Digest, name)
	}
	if err != nil {
		return nil, fmt.Errorf("the module was compiled, and cannot be loaded: %w", err)
	}
	return mod, nil
}

// Kinds of artifacts, as they enter file names.
const (
	ofModule = ""      // a module, by its digest
	ofCode   = "code " // all modules with the same code, by the sum from artifact.Cut; without data
)

// fileName returns the name of an artifact: a hash of everything that it depends on.
func fileName(kind string, sum [sha256.Size]byte, print string) string {
	of := sha256.Sum256(fmt.Appendf(nil, "%s%x %d %s", kind, sum, artifact.Format, print))
	return hex.EncodeToString(of[:16])
}

// store puts a module into the cache under a name. If another module with the same code was compiled, it compiles
// nothing: it combines the artifact of that code with the data of this module.
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
	defer m.turns.Take(shared)() // lock order: the module's turn, then the code's
	a, _, err := m.files.Open(shared)
	switch {
	case err == nil:
		a.Module.Data = data
		return m.put(name, a)
	case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, artifact.ErrDamaged):
		return err
	}
	a, err = m.build(ctx, wasm, name, folder)
	if err != nil || a.Module.Refusal != "" { // the data was compiled with the code, which cannot be shared
		return err
	}
	a.Module.Data = nil
	return m.put(shared, a)
}

// put writes an artifact whose code is in the cache already.
func (m *machine) put(name string, a *artifact.Artifact) error {
	bytes, err := m.files.Put(name, a)
	m.unseen.Add(-bytes)
	return unavailable(err)
}

// cacheParts divides the bound of the cache. A part of the bound may be written between two scans of all files, of
// which there are tens of thousands if modules are small. A scan of a full cache removes a part, so that scans stay
// that rare.
const cacheParts = 16

// makeRoom keeps the cache within its bound. Other hosts that share the cache do the same. While one goroutine scans
// the files, the other goroutines continue without waiting.
func (m *machine) makeRoom() error {
	most := m.cfg.CacheBytes
	if most <= 0 || m.unseen.Load() > 0 || !m.looking.TryLock() {
		return nil
	}
	defer m.looking.Unlock()
	unseen := m.unseen.Load()
	if unseen > 0 { // another goroutine has just scanned
		return nil
	}
	has, err := m.files.Bound(most, most-most/cacheParts)
	if err != nil {
		return err
	}
	m.unseen.Add(min(most/cacheParts, most-has) - unseen) // bytes written in the meantime still count
	return nil
}

// Forget removes a module from the cache. It does not wait for concurrent loads and compilations of the module, which
// may compile it again or leave it in the cache.
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

// unavailable wraps an error of a file in ErrUnavailable, since it does not concern the module.
func unavailable(err error) error {
	if err != nil {
		err = fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
	}
	return err
}

// rewriting is how each module is rewritten. A change requires a new artifact.Format.
var rewriting = instrument.Options{Fuel: true, NaN: true, TableElements: abi.MaxTableElements}

// compileInMemory compiles a module without a cache.
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
	// Machine code takes some four times as much as the Wasm code that it was compiled from.
	mod := &module{machine: m, digest: s.Digest, compiled: c, rewritten: *r, bytes: 5 * int64(len(r.Wasm)),
		code: m.codeOf(artifact.File{})}
	mod.rewritten.Wasm = nil
	return mod, nil
}

// Build compiles a module into an empty folder, from which an engine moves the files into its cache.
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

// compileTo compiles a module into an empty folder and returns the path of the only file in it.
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

// largeModule is the module size above which the garbage of a compilation justifies a collection.
const largeModule = 1 << 20

// build compiles a module into the cache. The compiler must store code in a folder of the given name.
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
		if len(wasm) >= largeModule { // a compilation needs twenty times the size of the module
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

// load loads a module from the cache. If the module must be compiled, the error is os.ErrNotExist or
// artifact.ErrDamaged.
func (m *machine) load(ctx context.Context, digest [sha256.Size]byte, name string) (*module, error) {
	a, replaced, err := m.files.Open(name)
	if err != nil {
		return nil, err
	}
	// wazero caches code before it has completed loading it. A concurrent second load of the same code would get it
	// without the entry points of its functions, and calling them panics.
	end := m.turns.Take(a.Code.Name) // lock order: after the artifact's turn
	c, err := m.rt.CompileModule(ctx, a.Module.Wasm)
	end()
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	// If wazero had not accepted the code, it would have compiled the skeleton and written the result over the code.
	if err := replaced(); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	mod := &module{machine: m, digest: digest, compiled: c, rewritten: a.Module, bytes: int64(len(a.Module.Wasm)),
		code: m.codeOf(a.Code)}
	mod.rewritten.Wasm = nil
	return mod, nil
}

// emptyModule is the shortest valid module.
const emptyModule = "\x00asm\x01\x00\x00\x00"

// compilerPrint returns a fingerprint of compiler and processor: code is only valid if it is equal. It is the path
// under which wazero stores the code of the empty module.
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
