// Package wazero runs modules on github.com/tetratelabs/wazero. It is the only package that imports it.
//
// Host functions are registered without reflection and take the state of the activation as the call's own
// context. A host function that stops the guest panics with one preallocated error, which wazero turns into the
// error of the call; nothing of the guest runs after it, its deferred functions included.
package wazero

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
)

// Config says how an engine is made.
type Config struct {
	// CacheDir keeps compiled modules between processes; empty keeps them in memory only. The directory is
	// made with mode 0700, since its contents are executed.
	CacheDir string
	// Interpreter runs without compiling: slow, for machines that the compiler does not know.
	Interpreter bool
}

// cacheMode: whoever can write into the cache can run code in the host.
const cacheMode = 0o700

// pageBytes is the size of a page of linear memory.
const pageBytes = 65536

type machine struct {
	rt    wazero.Runtime
	cache wazero.CompilationCache
}

// New makes an engine.
func New(ctx context.Context, cfg Config) (engine.Engine, error) {
	rc := wazero.NewRuntimeConfig()
	if cfg.Interpreter {
		rc = wazero.NewRuntimeConfigInterpreter()
	}
	// The context's end stops a guest that loops without calling the host.
	rc = rc.WithCloseOnContextDone(true).WithMemoryLimitPages(abi.MaxMemoryBytes / pageBytes).
		WithCoreFeatures(api.CoreFeaturesV2)
	m := &machine{}
	if cfg.CacheDir == "" {
		m.cache = wazero.NewCompilationCache()
	} else {
		if err := secureDir(cfg.CacheDir); err != nil {
			return nil, err
		}
		var err error
		if m.cache, err = wazero.NewCompilationCacheWithDir(cfg.CacheDir); err != nil {
			return nil, fmt.Errorf("open compilation cache: %w", err)
		}
	}
	m.rt = wazero.NewRuntimeWithConfig(ctx, rc.WithCompilationCache(m.cache))
	if err := register(ctx, m.rt); err != nil {
		return nil, errors.Join(err, m.rt.Close(ctx))
	}
	return m, nil
}

func secureDir(dir string) error {
	if err := os.MkdirAll(dir, cacheMode); err != nil {
		return fmt.Errorf("create compilation cache: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("check compilation cache: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 && filepath.VolumeName(dir) == "" {
		return fmt.Errorf("compilation cache %s has mode %04o; others could put code into it: make it 0700",
			dir, info.Mode().Perm())
	}
	return nil
}

func (m *machine) Close(ctx context.Context) error {
	return errors.Join(m.rt.Close(ctx), m.cache.Close(ctx))
}

func (m *machine) Compile(ctx context.Context, wasm []byte) (engine.Module, error) {
	c, err := m.rt.CompileModule(ctx, wasm)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	return &module{rt: m.rt, compiled: c}, nil
}

type module struct {
	rt       wazero.Runtime
	compiled wazero.CompiledModule
}

func (m *module) HasExport(name string) bool {
	_, ok := m.compiled.ExportedFunctions()[name]
	return ok
}

func (m *module) Close(ctx context.Context) error { return m.compiled.Close(ctx) }

// anonymous instances may live side by side, and their start functions are called by hand.
var anonymous = wazero.NewModuleConfig().WithName("").WithStartFunctions()

func (m *module) Instantiate(ctx context.Context) (engine.Instance, error) {
	in := &instance{}
	a := &activation{Context: ctx, host: &initHost{}}
	mod, err := m.rt.InstantiateModule(a, m.compiled, anonymous)
	if err != nil {
		return nil, a.explain(ctx, err, engine.TrapInit)
	}
	in.mod = mod
	if init := mod.ExportedFunction(abi.ExportInitialize); init != nil {
		if _, err := init.Call(a); err != nil {
			in.Release(ctx)
			return nil, a.explain(ctx, err, engine.TrapInit)
		}
	}
	return in, nil
}

type instance struct{ mod api.Module }

func (in *instance) Release(ctx context.Context) {
	_ = in.mod.Close(context.WithoutCancel(ctx)) // nothing to flush, and nobody to tell
}

// Memory gives the linear memory itself, valid until the guest runs again. Tests look at it.
func (in *instance) Memory() []byte {
	mem := in.mod.Memory()
	b, _ := mem.Read(0, mem.Size())
	return b
}

func (in *instance) Hash() [32]byte { return sha256.Sum256(in.Memory()) }

func (in *instance) Call(ctx context.Context, export string, h engine.Host) (int32, error) {
	fn := in.mod.ExportedFunction(export)
	if fn == nil {
		return 0, fmt.Errorf("the module does not export %s", export)
	}
	a := &activation{Context: ctx, host: h}
	// One slot for the result. wazero writes it through a bare pointer, so it must outlive the call: without
	// KeepAlive the collector may hand its memory to somebody else.
	stack := make([]uint64, 1)
	err := fn.CallWithStack(a, stack)
	runtime.KeepAlive(stack)
	if err != nil {
		exit := &engine.Exit{}
		if errors.As(a.stop, &exit) {
			return int32(exit.Code), nil
		}
		return 0, a.explain(ctx, err, engine.TrapGuest)
	}
	if len(fn.Definition().ResultTypes()) == 0 {
		return 0, nil
	}
	return int32(uint32(stack[0])), nil
}

// activation is the context of the calls of one activation, so that host functions find their host by a type
// assertion.
type activation struct {
	context.Context
	host engine.Host
	stop error // why the host stopped the guest
}

type activationKey struct{}

// Value lets a context that was wrapped on the way find the activation.
func (a *activation) Value(key any) any {
	if key == (activationKey{}) {
		return a
	}
	return a.Context.Value(key)
}

func activationOf(ctx context.Context) *activation {
	if a, ok := ctx.(*activation); ok {
		return a
	}
	a, _ := ctx.Value(activationKey{}).(*activation)
	return a
}

// errStopped is the one panic that ends a guest. Its code is outside of what a proc_exit of Go or C uses.
var errStopped = sys.NewExitError(0xf0000001)

// halt stops the guest for a reason.
func (a *activation) halt(reason error) {
	a.stop = reason
	panic(errStopped)
}

// explain turns wazero's error into the reason.
func (a *activation) explain(ctx context.Context, err error, kind string) error {
	exit := &engine.Exit{}
	if errors.As(a.stop, &exit) { // within the start-up
		return &engine.Trap{Message: exit.Error(), Kind: engine.TrapExit}
	}
	if a.stop != nil {
		return a.stop
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	message, stack, _ := strings.Cut(err.Error(), "\nwasm stack trace:\n")
	message = strings.TrimSuffix(strings.TrimPrefix(message, "wasm error: "), " (recovered by wazero)")
	return &engine.Trap{Message: message, Stack: strings.ReplaceAll(stack, "\t", ""), Kind: kind}
}
