package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/guest-sdk/toolchain"
)

// TestNewLanguages compiles the project that `wfhost new` writes, and runs it with and without an input.
func TestNewLanguages(t *testing.T) {
	exe := binary(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, lang := range slices.Concat([]string{"go", "ts"}, slices.Sorted(maps.Keys(languages))) {
		t.Run(lang, func(t *testing.T) {
			dir := t.TempDir()
			wfhost := func(args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), exe, args...)
				cmd.Dir = dir
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("wfhost %v: %v\n%s", args, err, stderr.Bytes())
				}
				return string(out)
			}
			if lang == "go" {
				wfhost("new", "greeter", "--source", root)
			} else {
				wfhost("new", "greeter", "--lang", lang)
			}
			if _, other := languages[lang]; other {
				_, err := toolchain.Compile(t.Context(), filepath.Join(dir, "greeter"))
				if missing, ok := errors.AsType[*toolchain.MissingError](err); ok {
					t.Skipf("SKIPPED: %v; the new workflow was not run", missing)
				}
			}
			wfhost("build", "greeter", "--out", "greeter.wasm")
			if got := wfhost("run", "greeter.wasm", "-q", "--skip-sleep"); got != "\"hello world, and good morning\"\n" {
				t.Errorf("without input the result is %s", got)
			}
			got := wfhost("run", "greeter", "--quiet", "--skip-sleep", "--input", `"Ada"`)
			if got != "\"hello Ada, and good morning\"\n" {
				t.Errorf("the result is %s", got)
			}
		})
	}
}

// TestNewTypeScriptTests runs the tests of a new TypeScript project. A Node that cannot run TypeScript, and would
// find no tests, gets an explanation.
func TestNewTypeScriptTests(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("SKIPPED: npm is not installed, so the test of a new project was not run")
	}
	dir := t.TempDir()
	create := exec.CommandContext(t.Context(), binary(t), "new", "greeter", "--lang", "ts")
	create.Dir = dir
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), npm, "test")
	cmd.Dir, cmd.Env = filepath.Join(dir, "greeter"), append(os.Environ(), "NODE_OPTIONS=", "npm_config_update_notifier=false")
	out, err := cmd.CombinedOutput()
	features, nodeErr := exec.CommandContext(t.Context(), "node", "-p", "Boolean(process.features.typescript)").Output()
	if nodeErr != nil {
		t.Fatal(nodeErr)
	}
	if string(features) == "true\n" {
		if err != nil || !strings.Contains(string(out), "greeter greets, and waits for a day") || !strings.Contains(string(out), "pass 1") {
			t.Errorf("%v\n%s", err, out)
		}
	} else if err == nil || !strings.Contains(string(out), "npm test needs Node 22.18 or later, which runs TypeScript; this is v") {
		t.Errorf("%v\n%s", err, out)
	}
}
