// Package wazero runs modules on github.com/tetratelabs/wazero. It is the only package that imports it.
//
// Host functions are registered without reflection and take the state of the activation as the call's own
// context. A host function that stops the guest panics with one preallocated error, which wazero turns into the
// error of the call; nothing of the guest runs after it, its deferred functions included.
package wazero

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/datadir"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/artifact"
	"github.com/wfhost/wfhost/host/internal/engine/calls"
	"github.com/wfhost/wfhost/host/internal/engine/linear"
)

// Config says how an engine is made.
type Config struct {
	// CacheDir keeps compiled modules between processes; empty keeps them in memory only. The directory is
	// made with mode 0700, since its contents are executed.
	CacheDir string
	// Interpreter runs without compiling: slow, for machines that the compiler does not know.
	Interpreter bool
	// Reset says how instances are made fit to be used again. The zero value takes the fastest way.
	Reset linear.Reset
	// Build compiles a module into an empty folder as the function Build does, in another process for example. Default: Build.
	// It is used where there is a CacheDir, and no Interpreter.
	Build func(ctx context.Context, wasm []byte, dir string) error
	// CacheBytes bounds the files in CacheDir, about: those that were used longest ago are removed, and compiled again when they
	// are needed. Default: no bound.
	CacheBytes int64
	// PoolBytes bounds the memory of idle instances, about. Default 32 MiB; negative keeps none.
	PoolBytes int64
}

// ParseReset reads the name of a Reset: auto, scan, drop, copy or none. The empty one is auto.
func ParseReset(name string) (linear.Reset, error) { return linear.ParseReset(name) }

// pageBytes is the size of a page of linear memory.
const pageBytes = 65536

type machine struct {
	cfg   Config
	rt    wazero.Runtime
	cache wazero.CompilationCache
	pool  *Pool[*module, *instance] // whose memory and globals are those of their images

	models linear.Models[[sha256.Size]byte] // by image.id

	files       artifact.Folder        // of Config.CacheDir
	unseen      atomic.Int64           // how many more bytes may be written there before all files are looked at
	looking     sync.Mutex             // held while all files are looked at
	turns       artifact.Turns         // by the names of artifacts, while one is loaded or compiled, and of code, while it is loaded
	mu          sync.Mutex             // guards what follows
	fingerprint string                 // of the compiler and this processor; empty until it is needed
	codes       map[string]*sharedCode // by the name of the file; there while a module has it
}

// defaultPoolBytes keeps more instances than there are activations at a time, and is little beside their limit, and beside those
// that a host parks, which become idle.
const defaultPoolBytes = 32 << 20

// runtimeConfig says how modules are compiled and run.
func runtimeConfig(interpreter bool) wazero.RuntimeConfig {
	rc := wazero.NewRuntimeConfig()
	if interpreter {
		rc = wazero.NewRuntimeConfigInterpreter()
	}
	// A guest that loops without calling the host is stopped by its fuel: a check of the context in each loop would
	// make tight loops many times slower. Debug information costs at each stop, and says little of a release build.
	return rc.WithCloseOnContextDone(false).WithMemoryLimitPages(abi.MaxMemoryBytes / pageBytes).
		WithCoreFeatures(api.CoreFeaturesV2).WithDebugInfoEnabled(false)
}

// New makes an engine.
func New(ctx context.Context, cfg Config) (engine.Engine, error) {
	m := &machine{cfg: cfg, codes: map[string]*sharedCode{},
		pool: NewIdle[*module, *instance](cmp.Or(cfg.PoolBytes, defaultPoolBytes))}
	if cfg.CacheDir == "" {
		m.cache = wazero.NewCompilationCache()
	} else {
		if err := datadir.Cache(cfg.CacheDir); err != nil {
			return nil, err
		}
		m.files = artifact.Folder(cfg.CacheDir)
		err := errors.Join(m.files.Clean(), m.makeRoom())
		if err != nil {
			return nil, err
		}
		m.cache, err = wazero.NewCompilationCacheWithDir(cfg.CacheDir)
		if err != nil {
			return nil, fmt.Errorf("open compilation cache: %w", err)
		}
	}
	m.rt = wazero.NewRuntimeWithConfig(ctx, runtimeConfig(cfg.Interpreter).WithCompilationCache(m.cache))
	if err := register(ctx, m.rt); err != nil {
		return nil, errors.Join(err, m.rt.Close(ctx))
	}
	return m, nil
}

func (m *machine) Close(ctx context.Context) error {
	m.closeAll(ctx, m.pool.Close())
	return errors.Join(m.rt.Close(ctx), m.cache.Close(ctx))
}

// Trim closes instances that were idle since before the last call.
func (m *machine) Trim(ctx context.Context) (closed, left int) {
	old, left := m.pool.Trim()
	m.closeAll(ctx, old)
	return len(old), left
}

func (m *machine) closeAll(ctx context.Context, list []*instance) {
	for _, in := range list {
		in.close(ctx)
	}
}

// activation is the context of the calls of one activation, so that host functions find their host by a type
// assertion.
type activation struct {
	context.Context
	in   *instance
	host engine.Host
	stop error // why the host stopped the guest

	frozen bool // the guest is to return
	late   bool // it has used its fuel up since
	denied bool // memory or a table could not grow

	frame calls.Frame // of the call of the host that goes on; there is one at a time

	// Of the newest host call, where forks are allowed.
	ctx  context.Context //nolint:containedctx // the call's own, which knows the stack
	call call
	fork *fork // nil: it is not forked
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

// errCannotUndo ends an activation whose memory cannot be cut to what it was.
var errCannotUndo = errors.New("the memory cannot be made what it was before the body")

// Halt stops the guest for a reason.
func (a *activation) Halt(reason error) {
	if a.fork != nil && errors.Is(reason, engine.ErrUndo) {
		a.undo() // which does not come back
	}
	a.stop = reason
	panic(errStopped)
}

// explain turns wazero's error into the reason.
func (a *activation) explain(ctx context.Context, err error, kind string) error {
	exit := &engine.Exit{}
	if errors.As(a.stop, &exit) { // within the start-up
		return &engine.Trap{Message: a.say(exit.Error()), Kind: engine.TrapExit}
	}
	if a.stop != nil {
		return a.stop
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	message, stack, _ := strings.Cut(err.Error(), "\nwasm stack trace:\n")
	message = strings.TrimSuffix(strings.TrimPrefix(message, "wasm error: "), " (recovered by wazero)")
	t := &engine.Trap{Message: message, Stack: strings.ReplaceAll(stack, "\t", ""), Kind: kind}
	switch {
	case message == stackOverflow && kind == engine.TrapGuest:
		t.Kind = engine.TrapStack
	case message == unreachable && a.denied && kind == engine.TrapGuest:
		t.Kind, t.Message = engine.TrapMemory, a.outOfMemory(message)
	case message == unreachable || kind == engine.TrapInit:
		t.Message = a.say(message)
	}
	return t
}

// What wazero calls two traps.
const (
	unreachable   = "unreachable" // how a guest ends itself
	stackOverflow = "stack overflow"
)

// say adds what the guest has said to why it broke down.
func (a *activation) say(message string) string {
	if h, ok := a.host.(interface{ Explain(message string) string }); ok {
		return h.Explain(message)
	}
	return message
}

// outOfMemory says why a guest ended itself that got no more memory.
func (a *activation) outOfMemory(how string) string {
	return a.say(fmt.Sprintf("out of memory: it has %d bytes, the limit is %d; %s", a.in.Size(), abi.MaxMemoryBytes, how))
}
