package host_test

import (
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/wasm/validate"
	"github.com/wfhost/wfhost/host/wasmgen"
)

func keysOf(m map[string]int) iter.Seq[string] { return maps.Keys(m) }

// handmadeModules are small modules that make each kind of call.
func handmadeModules() map[string][]byte {
	list := map[string]*wasmgen.Module{
		"return": wasmgen.New(0),
		"nap":    wasmgen.New(0).Text("nap").I64(1).Call(abi.FnSleep).Drop(),
		"step":   wasmgen.New(0).Text("s").Text("host/none").Text("null").Text("").I32(16).I32(64).Call(abi.FnStepDo).Drop(),
		"body":   wasmgen.New(1).Text("body").Text(`{"attempts":1}`).Call(abi.FnStepBegin).Set(0).Get(0).IfZero64().End(),
		"emit":   wasmgen.New(1).While().Get(0).I64(50).NotLess().Break().Text("t").Text("1").Call(abi.FnEmit).Drop().Count(0, 1).EndWhile(),
		"signal": wasmgen.New(0).Text("go").I64(1000).Call(abi.FnSignalStart).Drop().I32(0).I32(0).Call(abi.FnAwait).Drop(),
		"log":    wasmgen.New(0).I32(1).Text("a").Call(abi.FnLog).Drop(),
		"grow":   wasmgen.New(0).I32(3).Op(0x40, 0).Drop(),
		"spin":   wasmgen.New(1).While().Get(0).I64(100_000).NotLess().Break().Count(0, 1).EndWhile(),
		"again":  wasmgen.New(0).Text("1").Text("").Call(abi.FnContinueAsNew),
		"done":   wasmgen.New(0).Text("1").Call(abi.FnComplete).Drop(),
	}
	out := map[string][]byte{}
	for name, m := range list {
		out[name] = m.I32(0).Export(abi.ExportRun).Bytes()
	}
	return out
}

// realModules are modules to mutate: small ones with every kind of call, a C guest and a Go guest, and modules by
// other compilers that wazero is tested with.
func realModules(t *testing.T) map[string][]byte {
	out := handmadeModules()
	out["go"] = hosttest.Build(t, "../examples/drip")
	out["plain"] = hosttest.BuildCommand(t, "../examples/plain")
	if wasm := cGuest(t); wasm != nil {
		out["c"] = wasm
	}
	for name, wasm := range foreignModules(t, 500) {
		if _, err := validate.Scan(wasm); err == nil { // if a module is invalid, so are all its mutants
			out[name] = wasm
		}
	}
	return out
}

// cGuest compiles the C example, nil if clang is missing.
func cGuest(t *testing.T) []byte {
	for _, tool := range []string{"clang", "wasm-ld"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Logf("SKIPPED: %s is not installed, so the guest in C is left out", tool)
			return nil
		}
	}
	out := filepath.Join(t.TempDir(), "hello.wasm")
	cmd := exec.Command("clang", "--target=wasm32", "-mbulk-memory", "-O2", "-nostdlib", "-Wl,--no-entry", "-I", "../guest-sdk/c", "-o", out,
		"../examples/hello-c/hello.c")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	wasm, err := os.ReadFile(out)
	do(t, err)
	return wasm
}

// foreignModules are the modules of at least the given size in wazero's source, whose checksum is in go.sum.
func foreignModules(t *testing.T, least int) map[string][]byte {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	root := strings.TrimSpace(string(dir))
	if err != nil || root == "" {
		t.Logf("SKIPPED: the source of wazero is not there (vendored?), so its modules are left out: %v", err)
		return nil
	}
	out := map[string][]byte{}
	do(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".wasm" {
			return err
		}
		wasm, err := os.ReadFile(path)
		if err == nil && len(wasm) >= least && strings.HasPrefix(string(wasm), "\x00asm\x01\x00\x00\x00") {
			rel, _ := filepath.Rel(root, strings.TrimSuffix(path, ".wasm"))
			out[strings.ReplaceAll(filepath.ToSlash(rel), "/", "_")] = wasm
		}
		return err
	}))
	return out
}
