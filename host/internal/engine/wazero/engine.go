// Package wazero runs modules on github.com/tetratelabs/wazero. It is the only package that imports it.
//
// Host functions are registered without reflection and get the state of the activation as the call's context. A host
// function that stops the guest panics with one preallocated error, which wazero turns into the error of the call. No
// code of the guest runs after that, not even its deferred functions.
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

// Config configures an engine.
type Config struct {
	// CacheDir stores compiled modules for later processes; if empty, they are kept in memory only. The directory is
	// created with mode 0700, since its contents are executed.
	CacheDir string
	// Interpreter interprets modules: slow, for processors that the compiler does not support.
	Interpreter bool
	// Reset selects how instances are reset for reuse. The zero value selects the fastest way.
	Reset linear.Reset
	// Build compiles a module into an empty folder like the function Build, for example in another process. Default:
	// Build. It is only used with a CacheDir and without Interpreter.
	Build func(ctx context.Context, wasm []byte, dir string) error
	// CacheBytes is the approximate limit of the files in CacheDir. Above it, the least recently used files are
	// removed; their modules are compiled again when they are needed. Default: no limit.
	CacheBytes int64
	// PoolBytes is the approximate memory limit of idle instances. Default 32 MiB; a negative limit keeps none.
	PoolBytes int64
}

// CheckCache reports whether a folder can be a CacheDir: it makes the folder, or checks who owns it, and writes to it.
func CheckCache(dir string) error {
	if err := datadir.CheckCache(dir); err != nil {
		return err
	}
	_, remove, err := artifact.Folder(dir).Scratch()
	if err == nil {
		remove()
	}
	return err
}

// ParseReset parses the name of a Reset: auto, scan, drop, copy or none. An empty name is auto.
func ParseReset(name string) (linear.Reset, error) { return linear.ParseReset(name) }

// pageBytes is the size of a page of linear memory.
const pageBytes = 65536

type machine struct {
	cfg   Config
	rt    wazero.Runtime
	cache wazero.CompilationCache
	pool  *Pool[*module, *instance] // idle instances; memory and globals equal those of their images

	models linear.Models[[sha256.Size]byte] // by image.id

	files       artifact.Folder        // of Config.CacheDir
	unseen      atomic.Int64           // bytes that may still be written there before the next scan of all files
	looking     sync.Mutex             // held during a scan
	turns       artifact.NameLocks     // for names of artifacts during load and compilation, and names of code during load
	mu          sync.Mutex             // guards the fields below
	fingerprint string                 // of the compiler and this processor; empty until first needed
	codes       map[string]*sharedCode // by the name of the file; removed with its last module
}

// defaultPoolBytes holds more instances than there are concurrent activations. It is small beside the memory limit of
// the activations, and beside the instances that a host parks, which become idle.
const defaultPoolBytes = 32 << 20

// runtimeConfig returns the configuration for compiling and running modules.
func runtimeConfig(interpreter bool) wazero.RuntimeConfig {
	rc := wazero.NewRuntimeConfig()
	if interpreter {
		rc = wazero.NewRuntimeConfigInterpreter()
	}
	// Fuel stops a guest that loops without calling the host: a check of the context in each loop would make tight
	// loops many times slower. Debug information costs time at each stop, and is of little use in a release build.
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
		if err := datadir.CheckCache(cfg.CacheDir); err != nil {
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

// Trim closes the instances that became idle before the previous call.
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

	frozen bool // the guest must return
	late   bool // it has used up its fuel since then
	denied bool // memory or a table could not grow

	frame calls.Frame // of the host call in progress; there is at most one

	// The newest host call, if forks are allowed.
	ctx  context.Context //nolint:containedctx // the call's own, which holds the stack
	call call
	fork *fork // nil: not forked
}

type activationKey struct{}

// Value returns the activation for activationKey, also through contexts that wrap it.
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

// errStopped is the panic value that ends a guest. Its exit code is outside of the range that programs in Go or C
// use.
var errStopped = sys.NewExitError(0xf0000001)

// errCannotUndo ends an activation whose memory cannot be cut to its size before the body.
var errCannotUndo = errors.New("the memory cannot be made what it was before the body")

// Halt stops the guest for a reason.
func (a *activation) Halt(reason error) {
	if a.fork != nil && errors.Is(reason, engine.ErrUndo) {
		a.undo() // does not return
	}
	a.stop = reason
	panic(errStopped)
}

// explain converts wazero's error into the reason.
func (a *activation) explain(ctx context.Context, err error, kind string) error {
	exit := &engine.Exit{}
	if errors.As(a.stop, &exit) { // during start-up
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

// Messages of wazero for two traps.
const (
	unreachable   = "unreachable" // the instruction with which a guest ends itself
	stackOverflow = "stack overflow"
)

// say adds the guest's last words to the reason.
func (a *activation) say(message string) string {
	if h, ok := a.host.(interface{ Explain(message string) string }); ok {
		return h.Explain(message)
	}
	return message
}

// outOfMemory returns the message for a guest that ended itself because it got no more memory.
func (a *activation) outOfMemory(how string) string {
	return a.say(fmt.Sprintf("out of memory: it has %d bytes, the limit is %d; %s", a.in.Size(), abi.MaxMemoryBytes, how))
}
