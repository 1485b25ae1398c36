// Package hosttest runs workflows in tests: a host in memory with a clock that the test moves. The host can be
// restarted and killed.
//
//	h := hosttest.New(t)
//	h.Upload(ctx, "drip", hosttest.Build(t, "./testdata/drip"))
//	run, err := h.Start(ctx, "drip", input)
//	h.Advance(72 * time.Hour)
package hosttest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// Epoch is the start time of a test host's clock, unless WithStart sets another.
var Epoch = time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)

// Host is a host under test.
type Host struct {
	*host.Host
	Clock *clock.Fake
	Data  *memstore.Data

	t        testing.TB
	cfg      host.Config
	register []func(*host.Host)
	kept     []func(*host.Host) // handlers that the test has registered on the host, for the next one
	ours     int                // number of handlers that register and kept have registered
	crash    *crashStore
	stop     context.CancelFunc
	done     chan error
	patience time.Duration // of Wait
}

// Option is an option of New.
type Option func(*Host)

// WithConfig changes the configuration of the host.
func WithConfig(f func(*host.Config)) Option { return func(h *Host) { f(&h.cfg) } }

// WithHandlers registers handlers at every start of the host, before it runs. Handlers that a test registers later are
// registered again after a crash, too.
func WithHandlers(f func(*host.Host)) Option {
	return func(h *Host) { h.register = append(h.register, f) }
}

// WithStart sets the start time of the clock.
func WithStart(start time.Time) Option { return func(h *Host) { h.Clock = clock.NewFake(start) } }

// WithStore replaces the store in memory. open is called at every start.
func WithStore(open func() store.Store) Option {
	return func(h *Host) { h.crash.open = open }
}

// DefaultStore, if TestMain sets it, opens the stores of all hosts that are made without WithStore: it returns a function that
// opens one new store, again and again. nowMs is the host's clock in Unix milliseconds. Nil: stores are in memory.
var DefaultStore func(t testing.TB, nowMs func() int64) func() store.Store

// New returns a running host with an empty store in memory and a fake clock. The end of the test closes it.
func New(t testing.TB, opts ...Option) *Host {
	t.Helper()
	h := &Host{t: t, Clock: clock.NewFake(Epoch), Data: memstore.New(), crash: &crashStore{}, patience: usualPatience}
	h.Data.NowMs = func() int64 { return h.Clock.Now().UnixMilli() }
	h.crash.open = func() store.Store { return h.Data.Open() }
	if DefaultStore != nil {
		h.crash.open = DefaultStore(t, h.Data.NowMs)
	}
	h.cfg.Dir = cacheDir(t)
	h.cfg.StartLinger = time.Minute // the number of commits does not depend on the speed of the machine
	h.cfg.SweepEvery = -1           // tests sweep explicitly, or set it
	h.cfg.Drain = -1                // tests that wait for attempts set it
	for _, o := range opts {
		o(h)
	}
	h.start()
	t.Cleanup(h.Stop)
	return h
}

// OpenStore opens the data once more, beside the host. The end of the test closes it.
func (h *Host) OpenStore() store.Store {
	s := h.crash.open()
	h.t.Cleanup(func() { _ = s.Close() }) // of a test
	return s
}

func (h *Host) start() {
	h.t.Helper()
	h.crash.revive()
	cfg := h.cfg
	cfg.Store, cfg.Clock = h.crash, h.Clock
	hh, err := host.Open(context.Background(), cfg)
	if err != nil {
		h.t.Fatalf("open host: %v", err)
	}
	h.Host = hh
	for _, f := range h.register {
		f(hh)
	}
	h.ours = len(hh.Handlers())
	for _, f := range h.kept {
		f(hh)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.stop, h.done = cancel, make(chan error, 1)
	go func() { h.done <- hh.Run(ctx) }()
}

// Stop stops the host as a signal would: work in flight comes to rest first.
func (h *Host) Stop() {
	if h.Host == nil {
		return
	}
	h.stop()
	if err := <-h.done; err != nil && !errors.Is(err, host.ErrClosed) && !h.crash.crashed() {
		h.t.Errorf("run: %v", err)
	}
	_ = h.Close()       // a crashed store returns an error
	_ = h.crash.Close() // likewise
	h.letGo()
}

// letGo drops a closed host, but keeps its handlers.
func (h *Host) letGo() {
	h.kept = h.Handlers()[h.ours:]
	h.Host = nil
}

// Kill stops the host as kill -9 would: no further commit is made.
func (h *Host) Kill() {
	h.crash.kill()
	h.stop()
	_ = h.Close() // the store is dead
	<-h.done
	_ = h.crash.Close() // nothing has reached it since the kill
	h.letGo()
}

// Reopen stops the host if it is running and starts it again over the same data. Time does not pass.
func (h *Host) Reopen() {
	h.t.Helper()
	h.Stop()
	h.start()
}

// Crash kills the host and starts it again over what was durable, with the handlers that it had.
func (h *Host) Crash() {
	h.t.Helper()
	h.Kill()
	h.start()
}

// CrashAt kills the host at its n-th commit from now on (from 0): before the commit, so that it is lost, or after it,
// so that its acknowledgement is lost. Reopen revives the host.
func (h *Host) CrashAt(n int, after bool) { h.crash.arm(n, after) }

// Crashed reports whether the crash of CrashAt has happened.
func (h *Host) Crashed() bool { return h.crash.crashed() }

// Settle waits until nothing happens any more at this instant, and returns the next deadline, false if there is none.
func (h *Host) Settle() (next time.Time, ok bool) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		next, ok, err := h.WaitIdle(ctx)
		if err != nil {
			h.t.Fatalf("the host does not come to rest: %v", err)
		}
		if !ok || next.After(h.Clock.Now()) || h.crash.crashed() {
			return next, ok
		}
		if err := breathe(ctx); err != nil {
			h.t.Fatal("a timer that is due does not fire")
		}
	}
}

// Advance moves the clock forward by d, from deadline to deadline, and waits at each until all is done.
func (h *Host) Advance(d time.Duration) {
	h.t.Helper()
	end := h.Clock.Now().Add(d)
	for {
		next, ok := h.Settle()
		if !ok || next.After(end) || h.crash.crashed() {
			break
		}
		h.Clock.Set(next)
	}
	h.Clock.Set(end)
	h.Settle()
}

// Finish moves the clock from deadline to deadline until the run has ended or is stuck, and returns it.
func (h *Host) Finish(id string) host.Run {
	h.t.Helper()
	for range 1_000_000 {
		next, ok := h.Settle()
		r, err := h.Get(context.Background(), id)
		if err != nil {
			h.t.Fatalf("get run %s: %v", id, err)
		}
		if r.Status.Terminal() || r.Status == host.Stuck {
			return r
		}
		if !ok {
			h.t.Fatalf("run %s is %s (%s) and nothing will wake it", id, r.Status, r.Reason)
		}
		h.Clock.Set(next)
	}
	h.t.Fatalf("run %s does not end", id)
	return host.Run{}
}

// Dir returns the folder in which the host keeps compiled modules.
func (h *Host) Dir() string { return h.cfg.Dir }

// builds caches the compiled workflows of this process.
var builds sync.Map

type build struct {
	once sync.Once
	wasm []byte
	out  []byte
	err  error
}

// Build compiles the Go workflow in a folder and returns the module.
func Build(t testing.TB, dir string) []byte { return compile(t, dir, "-buildmode=c-shared") }

// BuildCommand compiles an ordinary Go program, without exports.
func BuildCommand(t testing.TB, dir string) []byte { return compile(t, dir) }

func compile(t testing.TB, dir string, flags ...string) []byte {
	t.Helper()
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := builds.LoadOrStore(abs+"\x00"+filepath.Join(flags...), &build{})
	b := v.(*build) //nolint:forcetypeassert // the only type in the map
	b.once.Do(func() {
		tmp, err := os.MkdirTemp("", "wfhost-build-")
		if err != nil {
			b.err = err
			return
		}
		defer func() { _ = os.RemoveAll(tmp) }() // a leftover in a temporary folder
		out := filepath.Join(tmp, "m.wasm")
		args := append(append([]string{"build"}, flags...), "-o", out, ".")
		cmd := exec.Command("go", args...)
		cmd.Dir = abs
		cmd.Env = append(cmd.Environ(), "GOOS=wasip1", "GOARCH=wasm")
		b.out, b.err = cmd.CombinedOutput()
		if b.err == nil {
			b.wasm, b.err = os.ReadFile(out)
		}
	})
	if b.err != nil {
		t.Fatalf("build %s: %v\n%s", dir, b.err, b.out)
	}
	return b.wasm
}

// cacheDir returns the folder for compiled modules, which test processes share: it is private to the user, named after
// this program, and holds only files of its own engine. The hosts of a process share their engine, too.
func cacheDir(t testing.TB) string {
	base, err := os.UserCacheDir()
	if err != nil {
		return t.TempDir()
	}
	exe, _ := os.Executable()
	sum := sha256.Sum256([]byte(filepath.Base(exe)))
	dir := filepath.Join(base, "wfhost-test", hex.EncodeToString(sum[:8]))
	engine.Share(dir)
	return dir
}
