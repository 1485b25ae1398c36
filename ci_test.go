package wfhost_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tools makes a folder with what scripts need, and with programs that answer as they are told: by name, the text of each.
func tools(t *testing.T, programs map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"bash", "sh", "cat", "cmp", "dirname", "head", "ls"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("SKIPPED: %v; the scripts of .ci were not tested", err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestMissing has .ci/missing tell of what is not there, and of nothing else.
func TestMissing(t *testing.T) {
	script, err := os.ReadFile(".ci/missing")
	if err != nil {
		t.Fatal(err)
	}
	const oldNode, newNode = "case $1 in -p) echo false;; esac", "case $1 in -p) echo true;; esac"
	lines := map[string]string{ // by what has a test skipped: a part of its line
		"node":  "the SDK under Node",
		"new":   "(Node 22.18 or newer is not there)",
		"npm":   "(npm is not there)",
		"zod":   "packages that many workflows have",
		"tsc":   "TypeScript: types",
		"lint":  "TypeScript: rules of ESLint (",
		"built": "the JavaScript engine, built from its source",
	}
	for name, c := range map[string]struct {
		programs map[string]string
		modules  []string
		engine   string // what build.sh does
		want     string
	}{
		"nothing":  {nil, nil, "exit 1", "node new npm zod tsc lint built"},
		"old node": {map[string]string{"node": oldNode, "npm": ""}, []string{"zod", "typescript", "typescript-eslint"}, "exit 0", "new"},
		"no npm":   {map[string]string{"node": newNode}, []string{"zod"}, "[ $1 = --tools ]", "npm tsc lint"},
		"no zod":   {map[string]string{"node": newNode, "npm": ""}, []string{"typescript", "typescript-eslint"}, "exit 1", "zod built"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, m := range c.modules {
				if err := os.MkdirAll(filepath.Join(dir, "bin/js/node_modules", m), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for file, text := range map[string]string{".ci/missing": string(script), "typescript/engine/build.sh": "#!/bin/sh\n" + c.engine} {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			path := tools(t, c.programs)
			cmd := exec.CommandContext(t.Context(), filepath.Join(path, "bash"), filepath.Join(dir, ".ci/missing"))
			cmd.Env = []string{"PATH=" + path}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for what, line := range lines {
				if strings.Contains(string(out), line) != strings.Contains(" "+c.want+" ", " "+what+" ") {
					t.Errorf("%s: %q is told wrongly in\n%s", what, line, out)
				}
			}
			if strings.Contains(string(out), "are there") {
				t.Errorf("all is there:\n%s", out)
			}
		})
	}
}

// TestEngineTools has build.sh say whether it could compare the JavaScript engine.
func TestEngineTools(t *testing.T) {
	path := tools(t, map[string]string{"clang": "echo clang version 1", "dpkg-query": "echo wasi-libc 1", "apt-get": "", "wasm-ld": "",
		"patch": "", "xz": "", "gzip": ""})
	for option, fails := range map[string]bool{"--tools": true, "--check": false} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(path, "sh"), "typescript/engine/build.sh", option)
		cmd.Env = []string{"PATH=" + path}
		if out, err := cmd.CombinedOutput(); !strings.HasPrefix(string(out), "SKIPPED: ") || (err != nil) != fails {
			t.Errorf("%s: %v\n%s", option, err, out)
		}
	}
}
