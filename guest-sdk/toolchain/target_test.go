package toolchain

import (
	"os"
	"path/filepath"
	"testing"
)

// TestConfigured reads build.target of configurations of cargo.
func TestConfigured(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		"[build]\ntarget = \"wasm32-wasip1\"": "wasm32-wasip1",
		"# build\n [ build ] # mine\njobs = 2\n target='wasm32-wasi' # old": "wasm32-wasi",
		"build.target = \"wasm32-wasip1\"\n":                                "wasm32-wasip1",
		"[build]\ntarget = [\"wasm32-wasip1\", \"wasm32-wasi\"]":            "wasm32-wasip1",
		"[build]\ntarget-dir = \"elsewhere\"":                               "",
		"[build]\n# target = \"wasm32-wasip1\"":                             "",
		"[target.wasm32-wasip1]\nrunner = \"x\"\n[env]\ntarget = \"a\"":     "",
		"target = \"a\"":                            "",
		"[env]\nbuild.target = \"a\"":               "",
		"[env]\nx = \"1\"\n[build]\ntarget = \"b\"": "b",
	} {
		if got := configured(text); got != want {
			t.Errorf("%q has the target %q, want %q", text, got, want)
		}
	}
}

// TestTarget takes the target of the nearest configuration, if it is one for WebAssembly.
func TestTarget(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "group", "project")
	is := func(want string) {
		t.Helper()
		if got, err := target(dir); err != nil || got != want {
			t.Errorf("the target is %q, want %q: %v", got, want, err)
		}
	}
	say := func(at, name, target string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(at, ".cargo"), 0o755); err != nil {
			t.Fatal(err)
		}
		text := "[build]\ntarget = \"" + target + "\"\n"
		if err := os.WriteFile(filepath.Join(at, ".cargo", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("CARGO_BUILD_TARGET", "")
	is(rustTarget)
	say(root, "config.toml", "wasm32-wasi")
	is("wasm32-wasi")
	say(dir, "config", "wasm32-wasip1")
	is("wasm32-wasip1")
	say(dir, "config", "x86_64-unknown-linux-musl")
	is(rustTarget)
	t.Setenv("CARGO_BUILD_TARGET", "wasm32-unknown-emscripten")
	is("wasm32-unknown-emscripten")
}
