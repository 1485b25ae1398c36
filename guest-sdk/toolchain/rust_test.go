package toolchain_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/guest-sdk/toolchain"
)

// manifest is that of a project whose package is called PACKAGE.
const manifest = `[package]
name = "PACKAGE"
version = "0.0.0"
edition = "2021"

[lib]
crate-type = ["cdylib"]

[profile.release]
opt-level = 0
`

// project writes the files of a project into a folder.
func project(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// compile makes a module of a folder, or skips the test.
func compile(t *testing.T, dir string) []byte {
	t.Helper()
	wasm, err := toolchain.Compile(t.Context(), dir)
	if missing, ok := errors.AsType[*toolchain.MissingError](err); ok {
		t.Skipf("SKIPPED: %v; %s was not compiled", missing, t.Name())
	}
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// export is a crate that exports a function.
func export(name string) string {
	return "#[no_mangle]\npub extern \"C\" fn " + name + "() {}\n"
}

func exports(t *testing.T, wasm []byte, name string) {
	t.Helper()
	if !bytes.Contains(wasm, []byte(name)) {
		t.Errorf("the module does not export %s", name)
	}
}

// TestRenamedRust compiles a package, and again when it has another name: what the first build left is no module of the second.
func TestRenamedRust(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	for _, name := range []string{"first-name", "second-name", "first-name"} {
		function := strings.ReplaceAll(name, "-", "_")
		project(t, dir, map[string]string{"Cargo.toml": strings.ReplaceAll(manifest, "PACKAGE", name), "src/lib.rs": export(function)})
		exports(t, compile(t, dir), function)
	}
}

// TestRustCacheNames compiles two projects whose paths differ in nothing but a separator and a hyphen.
func TestRustCacheNames(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	root := t.TempDir()
	for _, at := range []string{"p-q/x", "p/q-x", "p-q/x"} {
		dir, function := filepath.Join(root, at), "of_"+strings.NewReplacer("-", "_", "/", "__").Replace(at)
		project(t, dir, map[string]string{"Cargo.toml": strings.ReplaceAll(manifest, "PACKAGE", "same"), "src/lib.rs": export(function)})
		exports(t, compile(t, dir), function)
	}
	if kept, err := os.ReadDir(filepath.Join(cache, "wfhost", "cargo")); err != nil || len(kept) != 2 {
		t.Errorf("the cache has %v for two projects: %v", kept, err)
	}
}

// TestRustWithoutModule compiles a library that is no module: the error says what its Cargo.toml needs.
func TestRustWithoutModule(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	project(t, dir, map[string]string{"Cargo.toml": strings.ReplaceAll(manifest, "cdylib", "rlib"), "src/lib.rs": ""})
	_, err := toolchain.Compile(t.Context(), dir)
	if missing, ok := errors.AsType[*toolchain.MissingError](err); ok {
		t.Skipf("SKIPPED: %v; the error of a library was not seen", missing)
	}
	if err == nil || !strings.Contains(err.Error(), `cargo has made 0 modules of `+dir) || !strings.Contains(err.Error(), `["cdylib"]`) {
		t.Error(err)
	}
}

// TestRustDependencyWithModule compiles a package that depends on one which could be a module, too.
func TestRustDependencyWithModule(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	project(t, dir, map[string]string{
		"Cargo.toml":      strings.ReplaceAll(manifest, "PACKAGE", "user") + "[dependencies]\nused = { path = \"used\" }\n",
		"src/lib.rs":      "pub use used::twice;\n" + export("of_user"),
		"used/Cargo.toml": strings.ReplaceAll(strings.ReplaceAll(manifest, "PACKAGE", "used"), `"cdylib"`, `"cdylib", "rlib"`),
		"used/src/lib.rs": "pub fn twice(n: u32) -> u32 { n * 2 }\n",
	})
	exports(t, compile(t, dir), "of_user")
}
