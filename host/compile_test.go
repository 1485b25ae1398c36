package host_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// opened opens a host in a folder. The host runs until the test ends or end is called.
func opened(t *testing.T, cfg host.Config) (h *host.Host, end func()) {
	t.Helper()
	h, err := host.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var ran sync.WaitGroup
	ran.Go(func() { _ = h.Run(t.Context()) })
	end = sync.OnceFunc(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		ran.Wait()
	})
	t.Cleanup(end)
	return h, end
}

// A module is compiled in a separate process: at its upload, and when the cache is lost.
func TestCompiler(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a Go guest four times")
	}
	dir := t.TempDir()
	cfg := host.Config{Dir: dir, Compiler: host.SelfCompiler()}
	h, end := opened(t, cfg)
	if _, err := h.UploadAll(ctx, "", hosttest.Build(t, "testdata/mixed"), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	for i, id := range []string{"before", "after"} {
		if _, err := h.Start(ctx, "nap", 0, host.WithRunID(id)); err != nil {
			t.Fatal(err)
		}
		if _, err := h.ResultRaw(ctx, id); err != nil {
			t.Fatal(err)
		}
		end()
		if err := os.RemoveAll(filepath.Join(dir, "cache")); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			h, end = opened(t, cfg)
		}
	}
}

// A module that differs from an earlier one only in its data is not compiled: no compiler is available in this test.
func TestCompilerIsNotNeeded(t *testing.T) {
	dir := t.TempDir()
	says := func(text string, more byte) []byte {
		return wasmgen.New(0).Op(more).Text(text).Call(abi.FnComplete).Drop().I32(0).Export(abi.ExportRun).Bytes()
	}
	const nop, unreachable = 0x01, 0x00
	check := func(h *host.Host, workflow, want string) {
		t.Helper()
		if _, err := h.Start(ctx, workflow, nil, host.WithRunID(workflow)); err != nil {
			t.Fatal(err)
		}
		if got, err := h.ResultRaw(ctx, workflow); err != nil || string(got) != want {
			t.Errorf("%s: %s %v, want %s", workflow, got, err, want)
		}
		if err := h.Replay(ctx, workflow); err != nil {
			t.Error(err)
		}
	}
	h, end := opened(t, host.Config{Dir: dir, Compiler: host.SelfCompiler()})
	if _, err := h.Upload(ctx, "one", says(`"one"`, nop)); err != nil {
		t.Fatal(err)
	}
	check(h, "one", `"one"`)
	end()
	h, _ = opened(t, host.Config{Dir: dir, Compiler: []string{"/nothing/here"}})
	for _, name := range []string{"two", "six"} {
		if _, err := h.Upload(ctx, name, says(`"`+name+`"`, nop)); err != nil {
			t.Fatal(err)
		}
		check(h, name, `"`+name+`"`)
	}
	if _, err := h.Upload(ctx, "ten", says(`"ten"`, unreachable)); err == nil || errors.Is(err, host.ErrRejected) {
		t.Error("other code was not compiled:", err)
	}
}

// Deleting a version removes its module from the cache.
func TestDeletedVersionLeavesTheCache(t *testing.T) {
	dir := t.TempDir()
	h, _ := opened(t, host.Config{Dir: dir})
	check := func(version uint32, want bool) {
		t.Helper()
		paths, err := filepath.Glob(filepath.Join(dir, "cache", "modules", "*"))
		do(t, err)
		found := false
		for _, path := range paths {
			b, err := os.ReadFile(path)
			do(t, err)
			found = found || strings.Contains(string(b), fmt.Sprint("of-version-", version))
		}
		if found != want {
			t.Errorf("the module of version %d is in the cache: %v", version, found)
		}
	}
	for v := range uint32(2) {
		m := wasmgen.New(0).Text(fmt.Sprint("of-version-", v+1)).Call(abi.FnComplete).Drop().I32(0)
		_, err := h.Upload(ctx, "w", m.Export(abi.ExportRun).Bytes())
		do(t, err)
		check(v+1, true)
	}
	do(t, h.Workflows().DeleteVersion(ctx, "w", 1))
	check(1, false)
	check(2, true)
	if _, err := host.Open(ctx, host.Config{Dir: t.TempDir(), CacheBytes: 1000}); !errors.Is(err, host.ErrInvalid) {
		t.Error(err)
	}
}

// If the compiler crashes, exceeds its limits or is missing, only the upload fails.
func TestCompilerFails(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a Go guest again and again")
	}
	goGuest := hosttest.Build(t, "testdata/mixed")
	small := wasmgen.New(0).I32(0).Export(abi.ExportRun).Bytes()
	for name, c := range map[string]struct {
		command  []string
		limits   host.CompileLimits
		want     string
		rejected bool
	}{
		"no memory": {host.SelfCompiler(), host.CompileLimits{Memory: 40 << 20},
			"module rejected: compiling the module takes more than 41943040 bytes of memory, which is the limit", true},
		"no time":     {host.SelfCompiler(), host.CompileLimits{Wall: 60 * time.Millisecond}, "takes longer than 60ms, which is the limit", true},
		"rubbish":     {[]string{"go", "version"}, host.CompileLimits{}, "the process that compiles the module died: exit status", true},
		"not there":   {[]string{"/nothing/here"}, host.CompileLimits{}, "the process that compiles could not be started", false},
		"a directory": {[]string{t.TempDir()}, host.CompileLimits{}, "the process that compiles could not be started", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			h, end := opened(t, host.Config{Dir: dir, Compiler: c.command, CompileLimits: c.limits})
			_, err := h.UploadAll(ctx, "", goGuest)
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, host.ErrRejected) != c.rejected {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if _, err := h.Workflows().Version(ctx, "nap", 0); !errors.Is(err, host.ErrNotFound) {
				t.Error("it is there:", err)
			}
			end()
			h, _ = opened(t, host.Config{Dir: dir, Compiler: host.SelfCompiler()})
			if _, err := h.Upload(ctx, "small", small); err != nil {
				t.Fatal(err)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "cache", "new-*")); len(left) > 0 {
				t.Error(left)
			}
		})
	}
	if _, err := host.Open(ctx, host.Config{Dir: t.TempDir(), CompileLimits: host.CompileLimits{Memory: -1}}); !errors.Is(err, host.ErrInvalid) {
		t.Error(err)
	}
}

// A process that was started as a compiler, but whose main function does not begin with CompilerMain, refuses to open
// a host: otherwise it would start itself again.
func TestCompilerMainIsMissing(t *testing.T) {
	args := os.Args
	defer func() { os.Args = args }()
	os.Args = []string{args[0], "wfhost-compile-module"}
	if _, err := host.Open(ctx, host.Config{Dir: t.TempDir(), Compiler: host.SelfCompiler()}); !errors.Is(err, host.ErrInvalid) {
		t.Error(err)
	}
}

// lines takes what a host logs.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// If a module is unloaded while its run sleeps, it is loaded again when the run wakes, and the run continues from its
// frozen instance.
func TestModuleLeavesMemory(t *testing.T) {
	var log lines
	var thawed thaws
	cfg := host.Config{Dir: t.TempDir(), ModuleIdle: time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	cfg.Events.Activation = thawed.see
	shareCache(t, cfg.Dir)
	h, _ := opened(t, cfg)
	if _, err := h.UploadAll(ctx, "", hosttest.Build(t, "testdata/mixed"), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	const gone = "module has left memory"
	if _, err := h.Start(ctx, "nap", 400, host.WithRunID("r")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.ResultRaw(ctx, "r"); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil { // the end of an activation is reported after its commit
		t.Fatal(err)
	}
	if log.count(gone) == 0 || log.count("stuck") > 0 {
		t.Errorf("left memory %d times\n%s", log.count(gone), &log.b)
	}
	if thawed.thawed.Load()+thawed.replays.Load() == 0 {
		t.Error("it did not go on")
	}
}
