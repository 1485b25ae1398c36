package wazero

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/artifact"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// builder is an engine with a cache that counts the modules it has compiled.
func builder(t *testing.T, dir string) (m *machine, builds *atomic.Int32) {
	t.Helper()
	builds = new(atomic.Int32)
	return newEngine(t, Config{CacheDir: dir, Build: func(ctx context.Context, wasm []byte, dir string) error {
		builds.Add(1)
		return Build(ctx, wasm, dir)
	}}), builds
}

// at is an active segment of data.
func at(address byte, text string) []byte {
	return append([]byte{0, 0x41, address, 0x0b, byte(len(text))}, text...)
}

// replaced returns a module with other data segments, and with a data count section if counted.
func replaced(wasm []byte, counted bool, segments ...[]byte) []byte {
	const code, data, dataCount, head = 10, 11, 12, 8
	section := func(out []byte, id byte, content []byte) []byte {
		return append(binary.AppendUvarint(append(out, id), uint64(len(content))), content...)
	}
	out := slices.Clone(wasm[:head])
	for rest := wasm[head:]; len(rest) > 0; {
		size, n := binary.Uvarint(rest[1:])
		id, content := rest[0], rest[1+n:1+n+int(size)]
		rest = rest[1+n+int(size):]
		switch {
		case id == data:
			out = section(out, id, append([]byte{byte(len(segments))}, slices.Concat(segments...)...))
			continue
		case id == code && counted:
			out = section(out, dataCount, []byte{byte(len(segments))})
		}
		out = section(out, id, content)
	}
	return out
}

// reader is a module that executes first and returns the four bytes at address 16.
func reader(first ...byte) []byte {
	return wasmgen.New(0).Op(first...).I32(16).Op(0x28, 2, 0).Export(abi.ExportRun).Bytes()
}

// answer instantiates a module and calls it. It returns the result as text, or the error.
func answer(t *testing.T, mod engine.Module) string {
	t.Helper()
	in, err := mod.Instantiate(ctx)
	if err != nil {
		return err.Error()
	}
	defer in.Release(ctx)
	n, err := in.Call(ctx, abi.ExportRun, &tester{limit: 10})
	if err != nil {
		return err.Error()
	}
	return string(binary.LittleEndian.AppendUint32(nil, uint32(n)))
}

// answerOf compiles a module and returns its answer.
func answerOf(t *testing.T, m *machine, wasm []byte) string {
	t.Helper()
	mod, err := m.Compile(ctx, engine.Bytes(wasm))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = mod.Close(ctx) }()
	return answer(t, mod)
}

// Modules that differ only in their data are compiled once, by this engine or the next one, concurrently or in
// sequence.
func TestSharedCode(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	m, builds := builder(t, dir)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			text := fmt.Sprintf("abc%d", i)
			if got := answerOf(t, m, replaced(reader(), false, at(16, text))); got != text {
				t.Errorf("it has the data %q, want %q", got, text)
			}
		})
	}
	all.Wait()
	if n := builds.Load(); n != 1 {
		t.Errorf("eight modules of one code were compiled %d times", n)
	}
	m, builds = builder(t, dir)
	for text, wasm := range map[string][]byte{
		"wxyz": replaced(reader(), false, at(16, "wxyz")), "abc3": replaced(reader(), false, at(16, "abc3")),
		"abYZ":             replaced(reader(), true, at(15, "xab"), at(18, "cd"), at(18, "YZ")), // the last one wins
		"\x00\x00\x00\x00": replaced(reader(), false),
	} {
		if got := answerOf(t, m, wasm); got != text || builds.Load() > 0 {
			t.Errorf("it has the data %q, want %q; %d builds", got, text, builds.Load())
		}
	}
	if got := answerOf(t, m, replaced(reader(0x01), false, at(16, "wxyz"))); got != "wxyz" || builds.Load() != 1 {
		t.Errorf("other code: %q, %d builds", got, builds.Load())
	}
}

// Modules with the same code are loaded concurrently, in an engine that has none of them: wazero finds one module's
// code in memory while it still prepares that code for another, which takes longer the more function types there are.
func TestSharedCodeIsLoadedAtOnce(t *testing.T) {
	const types, typeSection, at0 = 500, 1, 8
	wasm := reader()
	if wasm[at0] != typeSection || wasm[at0+1] > 0x7f || wasm[at0+2] > 0x7f {
		t.Fatalf("%x", wasm)
	}
	count, rest := wasm[at0+2], wasm[at0+2+int(wasm[at0+1]):]
	section := binary.AppendUvarint(nil, types+uint64(count))
	section = append(section, wasm[at0+3:at0+2+int(wasm[at0+1])]...)
	section = append(section, bytes.Repeat([]byte{0x60, 1, 0x7e, 0}, types)...)
	wasm = slices.Concat(wasm[:at0+1], binary.AppendUvarint(nil, uint64(len(section))), section, rest)
	dir := filepath.Join(t.TempDir(), "cache")
	text := func(i int) string { return fmt.Sprintf("at%02d", i) }
	const modules = 4
	for range 10 {
		m, builds := builder(t, dir)
		var all sync.WaitGroup
		for i := range modules {
			all.Go(func() {
				if got := answerOf(t, m, replaced(wasm, false, at(16, text(i)))); got != text(i) {
					t.Errorf("%q, want %q", got, text(i))
				}
			})
		}
		all.Wait()
		if builds.Load() > 1 {
			t.Error(builds.Load(), "builds")
		}
	}
}

// Modules with the same code are used, closed and loaded again concurrently, and share no image.
func TestSharedCodeIsUsed(t *testing.T) {
	for name, cfg := range map[string]Config{"cache": {CacheDir: filepath.Join(t.TempDir(), "cache")}, "memory": {},
		"interpreter": {Interpreter: true}} {
		t.Run(name, func(t *testing.T) { sharedCodeIsUsed(t, newEngine(t, cfg)) })
	}
}

func sharedCodeIsUsed(t *testing.T, m *machine) {
	one, other := engine.Bytes(replaced(reader(), false, at(16, "left"))), engine.Bytes(replaced(reader(), false, at(16, "rght")))
	for range 3 {
		a, err := m.Compile(ctx, one)
		b, err2 := m.Compile(ctx, other)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if x, y := answer(t, a), answer(t, b); x != "left" || y != "rght" {
				t.Errorf("%q %q", x, y)
			}
		}
		if a.(*module).image.id == b.(*module).image.id {
			t.Error("two modules have the same image")
		}
		if err := a.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if got := answer(t, b); got != "rght" {
			t.Errorf("when another module of its code was closed: %q", got)
		}
		if err := b.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// Code that modules share is counted once, for all of them together.
func TestSharedCodeCountsOnce(t *testing.T) {
	m, _ := builder(t, filepath.Join(t.TempDir(), "cache"))
	compile := func(text string) *module {
		mod, err := m.Compile(ctx, engine.Bytes(replaced(reader(), false, at(16, text))))
		if err != nil {
			t.Fatal(err)
		}
		return mod.(*module)
	}
	one := compile("left")
	alone, code := one.Bytes(), one.code.bytes
	if code <= 0 {
		t.Fatal(code)
	}
	other, same := compile("rght"), compile("left")
	if got, want := one.Bytes()+other.Bytes()+same.Bytes(), 3*alone-2*code; got > want || got < want-2 {
		t.Errorf("three modules take %d bytes, one %d, with code of %d", got, alone, code)
	}
	for range 2 { // the second time does nothing
		if err := errors.Join(other.Close(ctx), same.Close(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	if one.Bytes() != alone {
		t.Errorf("when the others were closed it takes %d bytes, it took %d", one.Bytes(), alone)
	}
	if err := one.Close(ctx); err != nil || len(m.codes) > 0 {
		t.Fatal(err, m.codes)
	}
}

// Data that the engine has to write, drop or refuse behaves as the specification says, whether the code is shared or
// not.
func TestSharedCodeIsExact(t *testing.T) {
	const out = "out of bounds memory access"
	initialize := []byte{0x41, 16, 0x41, 0, 0x41, 4, 0xfc, 8, 0, 0} // memory.init of four bytes of segment 0 at 16
	drop := []byte{0xfc, 9, 0}                                      // data.drop of segment 0
	passive := append([]byte{1, 4}, "PASS"...)
	for _, c := range []struct {
		name     string
		code     []byte
		segments [][]byte
		want     string
	}{
		{"memory.init", reader(initialize...), [][]byte{passive}, "PASS"},
		{"memory.init of other data", reader(initialize...), [][]byte{append([]byte{1, 5}, "OTHER"...)}, "OTHE"},
		{"memory.init of less data", reader(initialize...), [][]byte{append([]byte{1, 3}, "SHO"...)}, out},
		// The specification drops active data after it was written (4.5.4); wazero does not.
		{"memory.init of active data", reader(initialize...), [][]byte{at(20, "kept")}, "kept"},
		{"memory.init of nothing", reader(0x41, 16, 0x41, 0, 0x41, 0, 0xfc, 8, 0, 0), [][]byte{at(16, "gone")}, "gone"},
		{"data.drop", reader(append(slices.Clone(drop), initialize...)...), [][]byte{passive}, out},
		{"data.drop of active data", reader(drop...), [][]byte{at(16, "gone")}, "gone"},
		{"passive beside active", reader(), [][]byte{passive, at(16, "both")}, "both"},
		{"outside", reader(), [][]byte{at(16, "abcd"), {0, 0x41, 0xff, 0xff, 7, 0x0b, 2, 'x', 'y'}}, out},
		{"nothing, outside", reader(), [][]byte{{0, 0x41, 0x81, 0x80, 8, 0x0b, 0}}, out},
		{"nothing, at the end", reader(), [][]byte{at(16, "abcd"), {0, 0x41, 0x80, 0x80, 8, 0x0b, 0}}, "abcd"},
		{"at the end", reader(), [][]byte{at(16, "abcd"), {0, 0x41, 0xfe, 0xff, 7, 0x0b, 2, 'x', 'y'}}, "abcd"},
	} {
		wasm := replaced(c.code, true, c.segments...)
		m, _ := builder(t, filepath.Join(t.TempDir(), "cache"))
		for range 2 {
			answerOf(t, m, replaced(c.code, true, at(16, "good"))) // it would lend its code
			if got := answerOf(t, m, wasm); !strings.Contains(got, c.want) {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		}
		if got := answerOf(t, newEngine(t, Config{Interpreter: true}), wasm); !strings.Contains(got, c.want) {
			t.Errorf("%s: interpreted, it is %q, want %q", c.name, got, c.want)
		}
	}
}

// The error for a module that no engine accepts does not depend on what was compiled before.
func TestSharedCodeIsRefused(t *testing.T) {
	m, builds := builder(t, filepath.Join(t.TempDir(), "cache"))
	answerOf(t, m, replaced(reader(), false, at(16, "good")))
	for name, wasm := range map[string][]byte{
		"miscounted": append(slices.Clone(replaced(reader(), false)), 0x0b, 1, 3), "cut off": replaced(reader(), false, at(16, "good")[:6]),
		"unknown": replaced(reader(), false, append([]byte{7}, at(16, "good")...)),
	} {
		got := answerOf(t, m, wasm)
		if want := answerOf(t, newEngine(t, Config{}), wasm); got != want || !strings.HasPrefix(got, "rewrite: ") {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if builds.Load() != 4 {
		t.Error(builds.Load(), "builds")
	}
}

// If one of the shared files is damaged or missing, one module is compiled again, and then all work.
func TestSharedCodeIsDamaged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	m, builds := builder(t, dir)
	text := func(i int) string { return fmt.Sprintf("ab%02d", i) }
	module := func(i int) []byte { return replaced(reader(), false, at(16, text(i))) }
	for i, damage := range []func(path string) error{
		os.Remove, func(path string) error { return os.Truncate(path, 40) },
		func(path string) error { return os.WriteFile(path, []byte("rubbish"), 0o600) },
	} {
		for j, files := range []string{"modules", "wazero-*"} {
			if got := answerOf(t, m, module(0)); got != text(0) {
				t.Fatal(got)
			}
			before := builds.Load()
			paths, err := filepath.Glob(filepath.Join(dir, files, "*"))
			if err != nil || len(paths) == 0 {
				t.Fatal(paths, err)
			}
			for _, path := range paths {
				if err := damage(path); err != nil {
					t.Fatal(err)
				}
			}
			for _, k := range []int{10 + 2*i + j, 0, 20 + 2*i + j} {
				if got := answerOf(t, m, module(k)); got != text(k) {
					t.Errorf("%q, want %q", got, text(k))
				}
			}
			if n := builds.Load() - before; n != 1 {
				t.Errorf("%s: %d builds", files, n)
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "new-*")); len(left) > 0 {
		t.Error(left)
	}
}

// The cache of an earlier release has only files of whole modules: they are still used.
func TestSharedCodeOfOldCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	m, builds := builder(t, dir)
	old := replaced(reader(), false, at(16, "olde"))
	answerOf(t, m, old)
	print, err := m.compilerPrint(ctx)
	code, _, ok := artifact.Cut(old)
	if err != nil || !ok {
		t.Fatal(err, ok)
	}
	if err := os.Remove(filepath.Join(dir, "modules", fileName(ofCode, code, print))); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "modules", fileName(ofModule, engine.Bytes(old).Digest, print))
	for i, text := range []string{"olde", "newe", "olde", "newr", "olde"} {
		if i == 4 { // it is made of what it shares
			if err := os.Truncate(own, 99); err != nil {
				t.Fatal(err)
			}
		}
		if got := answerOf(t, m, replaced(reader(), false, at(16, text))); got != text || int(builds.Load()) != 1+min(i, 1) {
			t.Errorf("%q, want %q; %d builds", got, text, builds.Load())
		}
	}
}

// bytesIn returns the total size of the files in a cache.
func bytesIn(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// The cache stays within its bound plus the module that was compiled last. Used modules stay, and removed ones are
// compiled again.
func TestCacheIsBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	m, builds := builder(t, dir)
	module := func(i int) []byte { // different code and different data each
		return replaced(reader(bytes.Repeat([]byte{0x01}, i+1)...), false, at(16, fmt.Sprintf("ab%02d", i)))
	}
	answerOf(t, m, module(0))
	one := bytesIn(t, dir)
	m.cfg.CacheBytes = 3*one + one/2
	const modules = 8
	for i := 1; i < modules; i++ {
		for _, k := range []int{0, i} {
			if got, want := answerOf(t, m, module(k)), fmt.Sprintf("ab%02d", k); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		if has := bytesIn(t, dir); has > m.cfg.CacheBytes+one+one/2 {
			t.Errorf("after %d modules the cache has %d bytes, its bound is %d", i, has, m.cfg.CacheBytes)
		}
	}
	if n := builds.Load(); n != modules {
		t.Errorf("%d builds of %d modules", n, modules)
	}
	if got := answerOf(t, m, module(1)); got != "ab01" || builds.Load() != modules+1 {
		t.Errorf("%q after %d builds, one that was removed", got, builds.Load())
	}
	// The next engine has the same bound.
	newEngine(t, Config{CacheDir: dir, CacheBytes: one})
	if has := bytesIn(t, dir); has > one {
		t.Errorf("when it was opened, the cache has %d bytes, its bound is %d", has, one)
	}
}

// The files of a cache are not listed for each module: there may be tens of thousands.
func TestCacheIsLookedAtSeldom(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	m, _ := builder(t, dir)
	n := 0
	compile := func() {
		n++
		answerOf(t, m, replaced(reader(bytes.Repeat([]byte{0x01}, n)...), false, at(16, "abcd")))
	}
	compile()
	one := bytesIn(t, dir)
	const parts = 3 // of what is compiled between two looks
	m.cfg.CacheBytes = parts * cacheParts * one
	compile() // the first look
	old := filepath.Join(dir, "modules", "old")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Truncate(old, 2*m.cfg.CacheBytes), os.Chtimes(old, time.Time{}, time.Unix(0, 0))); err != nil {
		t.Fatal(err)
	}
	for there := true; there; {
		compile()
		_, err := os.Stat(old)
		there = err == nil
		if n > 2*parts+2 {
			t.Fatalf("after %d modules of %d bytes the cache has more than its bound of %d", n, one, m.cfg.CacheBytes)
		}
	}
	if n < parts+2 {
		t.Errorf("all files were looked at for the module %d", n)
	}
}

// Forgetting a module removes it from the cache, but not modules that share its code.
func TestForget(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	m, builds := builder(t, dir)
	for range 2 {
		for _, text := range []string{"good", "more"} {
			if got := answerOf(t, m, replaced(reader(), false, at(16, text))); got != text || builds.Load() != 1 {
				t.Errorf("%q, want %q, after %d builds", got, text, builds.Load())
			}
		}
		if err := m.Forget(ctx, engine.Bytes(replaced(reader(), false, at(16, "good"))).Digest); err != nil {
			t.Error(err)
		}
		for _, text := range []string{"good", "more"} {
			paths, _ := filepath.Glob(filepath.Join(dir, "modules", "*"))
			found := slices.ContainsFunc(paths, func(path string) bool {
				b, _ := os.ReadFile(path)
				return bytes.Contains(b, []byte(text))
			})
			if found != (text == "more") {
				t.Errorf("%q is in the cache: %v", text, found)
			}
		}
	}
}
