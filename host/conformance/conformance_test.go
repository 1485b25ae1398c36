package conformance_test

import (
	"errors"
	"flag"
	"github.com/wfhost/wfhost/host"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/guest-sdk/toolchain"
	"github.com/wfhost/wfhost/host/conformance"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/typescript"
)

var rewrite = flag.Bool("rewrite", false, "write the reference journals, of the stories in Go")

// Minimum for each SDK: stories that pass or are skipped, and memories that are compared.
const (
	minStories = 28
	minPoints  = 100
)

// check runs all stories of a module, each in a subtest. It may lack some.
func check(t *testing.T, wasm []byte, without ...string) {
	t.Helper()
	report, err := conformance.Check(t.Context(), wasm, conformance.Options{CacheDir: host.UserCacheDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range report.Outcomes {
		t.Run(o.Story, func(t *testing.T) {
			if has := !slices.Contains(without, o.Story); has != (o.Skipped == "") {
				t.Errorf("skipped: %q", o.Skipped)
			}
			for _, fault := range o.Faults {
				t.Error(fault)
			}
		})
	}
	if report.Passed < minStories-len(without) || report.Points < minPoints {
		t.Errorf("%d stories have passed, and %d memories were compared", report.Passed, report.Points)
	}
}

// TestGo runs the reference implementation. With -rewrite it writes the journals; results and memory are compared in
// any case.
func TestGo(t *testing.T) {
	wasm := hosttest.Build(t, "../../guest-sdk/go/stories")
	if *rewrite {
		report, err := conformance.Check(t.Context(), wasm, conformance.Options{CacheDir: host.UserCacheDir()})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range report.Outcomes {
			if o.Story == conformance.RulesWorkflow { // which has no journal
				continue
			}
			if err := os.WriteFile(filepath.Join("stories", o.Story+".journal"), []byte(o.Journal), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, fault := range o.Faults {
				if !strings.Contains(fault, "the journal differs") {
					t.Errorf("%s: %s", o.Story, fault)
				}
			}
		}
		return
	}
	check(t, wasm)
}

// compile builds the module of the stories in another language, or skips the test.
func compile(t *testing.T, dir string) []byte {
	t.Helper()
	wasm, err := toolchain.Compile(t.Context(), dir)
	if missing, ok := errors.AsType[*toolchain.MissingError](err); ok {
		t.Skipf("SKIPPED: %v; the stories in %s were not run", missing, missing.Lang)
	}
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// TestTypeScript: this SDK numbers repeated names, and its results are JSON.
func TestTypeScript(t *testing.T) {
	wasm, _, err := typescript.Build(t.Context(), "../../guest-sdk/js/stories/stories.ts")
	if err != nil {
		t.Fatal(err)
	}
	check(t, wasm, "bytes", "names")
}

func TestC(t *testing.T) { check(t, compile(t, "../../guest-sdk/c/stories"), "rules") }

func TestCPP(t *testing.T) { check(t, compile(t, "../../guest-sdk/cpp/stories"), "rules") }

func TestRust(t *testing.T) { check(t, compile(t, "../../guest-sdk/rust/stories"), "rules") }

// TestRustWASI: the SDK does the same on a target where std has WASI. Rust before 1.78 calls the target wasm32-wasi.
func TestRustWASI(t *testing.T) {
	for _, target := range []string{"wasm32-wasip1", "wasm32-wasi"} {
		t.Setenv("CARGO_BUILD_TARGET", target)
		wasm, err := toolchain.Compile(t.Context(), "../../guest-sdk/rust/stories")
		if err == nil {
			check(t, wasm, "rules")
			return
		}
		if _, ok := errors.AsType[*toolchain.MissingError](err); !ok {
			t.Fatal(err)
		}
	}
	t.Skip("SKIPPED: there is no Rust with the target wasm32-wasip1 or wasm32-wasi; the stories were not run on it")
}

func TestAssemblyScript(t *testing.T) {
	check(t, compile(t, "../../guest-sdk/assemblyscript/stories"), "rules")
}
