package toolchain_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/guest-sdk/toolchain"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// form writes a project whose source is in testdata and which depends on the SDK and on what dependencies names.
func form(t *testing.T, name, options, dependencies string) (dir string) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", name, "lib.rs"))
	if err != nil {
		t.Fatal(err)
	}
	crate, err := filepath.Abs("../rust")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	project(t, dir, map[string]string{"src/lib.rs": string(source), "Cargo.toml": strings.ReplaceAll(manifest, "PACKAGE", name) +
		"panic = \"abort\"\n[dependencies]\nwfhost-workflow = { path = " + strconv.Quote(crate) + options + " }\n" + dependencies})
	return dir
}

// result runs a workflow, each wait by a replay, and returns its result.
func result(t *testing.T, wasm []byte, workflow, input string) string {
	t.Helper()
	h := hosttest.New(t)
	if _, err := h.Upload(t.Context(), workflow, wasm); err != nil {
		t.Fatal(err)
	}
	if _, err := h.StartRaw(t.Context(), workflow, []byte(input), host.WithRunID("run")); err != nil {
		t.Fatal(err)
	}
	if r := h.Finish("run"); r.Status != host.Completed {
		_, err := h.ResultRaw(t.Context(), "run")
		t.Fatalf("the run is %s: %v", r.Status, err)
	}
	got, err := h.ResultRaw(context.Background(), "run")
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// TestRustWASI builds a project for WASI, as its configuration of cargo says, by whichever name the Rust of this machine has
// for it: wasm32-wasip1, or wasm32-wasi before Rust 1.78.
func TestRustWASI(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("CARGO_BUILD_TARGET", "")
	dir := form(t, "wasi", "", "")
	var missing *toolchain.MissingError
	for _, target := range []string{"wasm32-wasip1", "wasm32-wasi"} {
		project(t, dir, map[string]string{".cargo/config.toml": "[build]\ntarget = \"" + target + "\"\n"})
		wasm, err := toolchain.Compile(t.Context(), dir)
		if errors.As(err, &missing) {
			if !strings.Contains(missing.Tool, target) || !strings.Contains(missing.Hint, target) {
				t.Errorf("the error does not name the target %s: %v", target, missing)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(wasm, []byte("wasi_snapshot_preview1")) {
			t.Error("the module imports nothing of WASI")
		}
		if got := result(t, wasm, "nap", `"Ada"`); got != `"hello Ada, 7200 s later, 8 true"` {
			t.Errorf("the result is %s", got)
		}
		return
	}
	t.Skipf("SKIPPED: %v; no workflow in Rust was built for WASI", missing)
}

// TestRustWithoutStd builds a program that is no_std. Rust before 1.68 lets one with an allocator be linked only by a feature that
// is not stable there.
func TestRustWithoutStd(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := form(t, "nostd", ", default-features = false", "")
	_, err := toolchain.Compile(t.Context(), dir)
	if err != nil && strings.Contains(err.Error(), "#[alloc_error_handler]") {
		t.Setenv("RUSTC_BOOTSTRAP", "1")
		t.Setenv("RUSTFLAGS", "--cfg before_1_68")
	}
	if got := result(t, compile(t, dir), "small", `"Ada"`); got != `"hello Ada"` {
		t.Errorf("the result is %s", got)
	}
}

// TestRustSerde builds a workflow whose payloads serde reads and writes, with Debian's sources of serde, since tests fetch nothing.
func TestRustSerde(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: it compiles serde's macros, which takes half a minute; serde_payload! was not tested")
	}
	const registry = "/usr/share/cargo/registry"
	for _, name := range []string{"serde", "serde_derive", "serde_json"} {
		if found, err := filepath.Glob(filepath.Join(registry, name+"-1.*")); err != nil || len(found) == 0 {
			t.Skipf("SKIPPED: %s has no %s: apt-get install librust-serde-json-dev librust-serde-derive-dev; serde_payload! was not tested",
				registry, name)
		}
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := form(t, "serde", "", "serde = { version = \"1\", features = [\"derive\"] }\nserde_json = \"1\"\n")
	project(t, dir, map[string]string{".cargo/config.toml": "[source.crates-io]\nreplace-with = \"debian\"\n" +
		"[source.debian]\ndirectory = \"" + registry + "\"\n"})
	wasm := compile(t, dir)
	if got := result(t, wasm, "buy", `{"item":"tea","cents":350}`); got != `{"order":{"item":"tea","cents":350,"gift":false},"paid":350}` {
		t.Errorf("the result is %s", got)
	}
}
