package wazero

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/artifact"
)

// counted is a source that counts how often it is read.
func counted(wasm []byte) (s engine.Source, reads *int) {
	s, reads = engine.Bytes(wasm), new(int)
	read := s.Read
	s.Read = func(ctx context.Context) ([]byte, error) {
		*reads++
		return read(ctx)
	}
	return s, reads
}

func newEngine(t *testing.T, cfg Config) *machine {
	t.Helper()
	e, err := New(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(ctx) })
	return e.(*machine)
}

// hashOf compiles a module and returns a hash of the memory of an instance that has run.
func hashOf(t *testing.T, m *machine, s engine.Source) (sum [32]byte) {
	t.Helper()
	mod, err := m.Compile(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mod.Close(ctx) }()
	in := take(t, mod.(*module))
	defer in.Release(ctx)
	if _, err := in.Call(ctx, abi.ExportRun, &tester{limit: 1000}); err != nil {
		t.Fatal(err)
	}
	return in.Hash()
}

// A compiled module is neither read nor compiled again, by this engine or the next one, and behaves the same.
func TestCacheDir(t *testing.T) {
	dir := t.TempDir()
	plain, _ := counted(dirty(3))
	want := hashOf(t, newEngine(t, Config{}), plain)
	s, reads := counted(dirty(3))
	for range 2 {
		m := newEngine(t, Config{CacheDir: filepath.Join(dir, "cache")})
		for range 2 {
			if hashOf(t, m, s) != want {
				t.Error("the memory is another one than without a cache")
			}
		}
	}
	if *reads != 1 {
		t.Error("the module was read", *reads, "times")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "cache", "new-*")); len(left) > 0 {
		t.Error(left)
	}
}

// A damaged or incomplete cache entry is compiled again, and never executed.
func TestDamagedCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	s, reads := counted(dirty(3))
	m := newEngine(t, Config{CacheDir: dir})
	want := hashOf(t, m, s)
	files := func(folder string, most int) []string {
		t.Helper()
		list, err := filepath.Glob(filepath.Join(dir, folder, "*"))
		if err != nil || len(list) != most {
			t.Fatal(list, err)
		}
		return list
	}
	flip := func(at int) func(b []byte) []byte {
		return func(b []byte) []byte {
			b = bytes.Clone(b)
			b[(at+len(b))%len(b)] ^= 0x40
			return b
		}
	}
	for i, damage := range []struct {
		folder string
		to     func(b []byte) []byte
	}{
		{"modules", nil}, {"modules", flip(0)}, {"modules", flip(200)}, {"modules", flip(-1)},
		{"modules", func([]byte) []byte { return nil }}, {"modules", func(b []byte) []byte { return b[:50] }},
		{"wazero-*", nil}, {"wazero-*", flip(0)}, {"wazero-*", flip(30)}, {"wazero-*", flip(-40)},
		{"wazero-*", func(b []byte) []byte { return b[:len(b)/2] }},
	} {
		for _, path := range files(damage.folder, map[string]int{"modules": 2, "wazero-*": 1}[damage.folder]) { // of the module, and of its code
			b, err := os.ReadFile(path)
			if damage.to == nil {
				err = os.Remove(path)
			} else if err == nil {
				err = os.WriteFile(path, damage.to(b), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if hashOf(t, m, s) != want || *reads != 2+i {
			t.Errorf("%d: %d reads", i, *reads)
		}
	}
}

// A compiler may fail, and may write anything.
func TestBuildFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	broken := errors.New("broken")
	var build func(wasm []byte, dir string) error
	m := newEngine(t, Config{CacheDir: dir, Build: func(_ context.Context, wasm []byte, dir string) error { return build(wasm, dir) }})
	s, _ := counted(dirty(3))
	for name, c := range map[string]struct {
		build func(wasm []byte, dir string) error
		want  error
	}{
		"it fails": {func([]byte, string) error { return broken }, broken},
		"nothing":  {func([]byte, string) error { return nil }, os.ErrNotExist},
		"rubbish": {func(_ []byte, dir string) error {
			return os.WriteFile(filepath.Join(dir, "artifact"), []byte("rubbish"), 0o600)
		}, artifact.ErrDamaged},
		"it has a folder": {func(_ []byte, dir string) error { return os.Mkdir(filepath.Join(dir, "artifact"), 0o700) }, nil},
		"no code": {func(wasm []byte, dir string) error {
			return errors.Join(Build(ctx, wasm, dir), removeCode(dir))
		}, os.ErrNotExist},
	} {
		build = c.build
		if _, err := m.Compile(ctx, s); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	build = func(wasm []byte, dir string) error { return Build(ctx, wasm, dir) }
	hashOf(t, m, s)
	if left, _ := filepath.Glob(filepath.Join(dir, "new-*")); len(left) > 0 {
		t.Error(left)
	}
}

// Output of another compiler version is not used: wazero would not find it, and would compile the skeleton, whose
// functions all trap.
func TestOtherCompiler(t *testing.T) {
	build := func(_ context.Context, wasm []byte, dir string) error {
		if err := Build(ctx, wasm, dir); err != nil {
			return err
		}
		list, err := filepath.Glob(filepath.Join(dir, "wazero-*"))
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		b, err := os.ReadFile(filepath.Join(dir, "artifact"))
		if err != nil {
			t.Fatal(err)
		}
		a, err := artifact.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		return a.Write(dir, filepath.Join(dir, a.Code.Folder, a.Code.Name), "wazero-v9.9.9-other", a.Code.Name)
	}
	dir := filepath.Join(t.TempDir(), "cache")
	m := newEngine(t, Config{CacheDir: dir, Build: build})
	s, _ := counted(dirty(3))
	mod, err := m.Compile(ctx, s)
	if err == nil {
		_, err = take(t, mod.(*module)).Call(ctx, abi.ExportRun, &tester{limit: 1000})
	}
	if err == nil || !strings.Contains(err.Error(), "wazero-v9.9.9-other") || !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	m.cfg.Build = nil
	hashOf(t, m, s)
}

// The next engine removes what a killed process left, but not what this process is using.
func TestScratch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	m := newEngine(t, Config{CacheDir: dir})
	own, remove, err := m.files.Scratch()
	if err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(dir, "new-old")
	if err := os.MkdirAll(filepath.Join(old, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	newEngine(t, Config{CacheDir: dir})
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := os.Stat(own); err != nil {
		t.Error(err)
	}
	remove()
}

// The bytes of a module that was loaded from the cache are not kept in memory; its data is kept only until there is
// an image.
func TestLoadedHoldsLittle(t *testing.T) {
	m := newEngine(t, Config{CacheDir: filepath.Join(t.TempDir(), "cache")})
	s := engine.Bytes(dirty(3))
	mod, err := m.Compile(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mod.Close(ctx) }()
	x := mod.(*module)
	if x.rewritten.Wasm != nil || mod.Bytes() < 100 {
		t.Error(len(x.rewritten.Wasm), mod.Bytes())
	}
	before := mod.Bytes()
	take(t, x).Release(ctx)
	if x.rewritten.Data != nil || mod.Bytes() < before+65536 {
		t.Error(x.rewritten.Data, mod.Bytes())
	}
}

// removeCode removes the machine code from the folder of a compilation.
func removeCode(dir string) error {
	list, err := filepath.Glob(filepath.Join(dir, "wazero-*"))
	for _, path := range list {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}
