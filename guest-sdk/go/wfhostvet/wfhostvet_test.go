package wfhostvet_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/wfhost/wfhost/guest-sdk/go/wfhostvet"
)

// TestAnalyzer compares the findings with the comments in the files of testdata.
func TestAnalyzer(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), wfhostvet.Analyzer, "a")
}

// TestShapes compares the function signatures of testdata's SDK stub with the SDK's.
func TestShapes(t *testing.T) {
	real := functions(t, "../workflow")
	stand := functions(t, "testdata/src/github.com/wfhost/wfhost/guest-sdk/go/workflow")
	if len(stand) < 8 {
		t.Fatal(stand)
	}
	for name := range stand {
		if !real[name] {
			t.Errorf("the SDK has no %s", name)
		}
	}
	for _, name := range wfhostvet.Functions() {
		if !real[name] {
			t.Errorf("the analyzer looks for %s, which the SDK does not have", name)
		}
	}
}

func functions(t *testing.T, dir string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				found[fn.Name.Name] = true
			}
		}
	}
	return found
}

// TestExamplesAreClean runs go vet with the command on all examples.
func TestExamplesAreClean(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles the command and its packages")
	}
	tool := filepath.Join(t.TempDir(), "wfhostvet")
	if out, err := exec.Command("go", "build", "-o", tool, "../../../cmd/wfhostvet").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	vet := func(pattern string, env ...string) string {
		cmd := exec.Command("go", "vet", "-vettool="+tool, pattern)
		cmd.Env = append(os.Environ(), env...)
		out, _ := cmd.CombinedOutput() // a failure, or an exit code for findings
		return strings.TrimSpace(string(out))
	}
	if out := vet("../../../examples/..."); out != "" {
		t.Error(out)
	}
	if out := vet("./testdata/src/broken", "GOOS=wasip1", "GOARCH=wasm"); !strings.Contains(out, "writes to total, which is declared outside") {
		t.Errorf("of a workflow that is broken it says %q", out)
	}
}
