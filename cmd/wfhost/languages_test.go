package main

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/wfhost/wfhost/guest-sdk/toolchain"
)

// TestNewLanguages compiles and runs what `wfhost new` writes.
func TestNewLanguages(t *testing.T) {
	exe := binary(t)
	for lang := range languages {
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
			wfhost("new", "greeter", "--lang", lang)
			_, err := toolchain.Compile(t.Context(), filepath.Join(dir, "greeter"))
			if missing, ok := errors.AsType[*toolchain.MissingError](err); ok {
				t.Skipf("SKIPPED: %v; the new workflow was not run", missing)
			}
			got := wfhost("run", "greeter", "--quiet", "--skip-sleep", "--input", `"Ada"`)
			if got != "\"hello Ada, and good morning\"\n" {
				t.Errorf("the result is %s", got)
			}
		})
	}
}
