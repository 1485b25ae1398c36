package wfhost_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden parts: the picture of ARCHITECTURE.md")

const module = "github.com/wfhost/wfhost"

type listed struct {
	ImportPath string
	Imports    []string
}

// packages lists the packages of the module with their direct imports, tests excluded.
func packages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

// TestPicture compares ARCHITECTURE.md with the imports.
func TestPicture(t *testing.T) {
	var b strings.Builder
	for _, p := range packages(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if name == "" || strings.HasPrefix(name, "examples") || strings.Contains(name, "testdata") {
			continue
		}
		var to []string
		for _, i := range p.Imports {
			if rest, ok := strings.CutPrefix(i, module+"/"); ok {
				to = append(to, rest)
			}
		}
		fmt.Fprintf(&b, "%s -> %s\n", name, strings.Join(to, " "))
	}
	doc, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	const open, end = "```imports\n", "```"
	before, rest, _ := strings.Cut(string(doc), open)
	got, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatal("ARCHITECTURE.md has no imports block")
	}
	if *rewrite {
		if err := os.WriteFile("ARCHITECTURE.md", []byte(before+open+b.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != b.String() {
		t.Errorf("ARCHITECTURE.md says\n%s\ngo list says\n%s\nrewrite it with: go test . -run TestPicture -rewrite", got, b.String())
	}
}

// only lists what may be imported by whom.
var only = map[string][]string{
	"github.com/tetratelabs/wazero":           {"host/internal/engine/wazero", "typescript/engine"}, // which runs the compiler of JavaScript
	"github.com/evanw/esbuild":                {"typescript"},
	"github.com/cockroachdb/pebble":           {"store/pebblestore", "store/pebblestore/logfs"},
	module + "/host/hosttest":                 {},
	module + "/store/storetest":               {},
	module + "/host/internal/engine/conform":  {},
	module + "/host/httpapi":                  {"cmd/wfhost"},                 // and embedders
	module + "/host/page":                     {"host/httpapi", "cmd/wfhost"}, // and embedders
	module + "/cmd/wfhost/bench":              {"cmd/wfhost"},
	module + "/host/wasmgen":                  {"cmd/wfhost/bench", "host/internal/engine/conform"},
	"github.com/danielgtaylor/huma":           {"host/httpapi"},
	"github.com/expr-lang/expr":               {"definition/expression"},
	"go.yaml.in/yaml":                         {"definition/yamltext"}, // which the guest does not have in it
	"github.com/alecthomas/kong":              {"cmd/wfhost"},
	"github.com/prometheus":                   {"host/metrics"},
	"go.opentelemetry.io":                     {"host/traces", "cmd/wfhost"},
	module + "/host/traces":                   {"cmd/wfhost"},                               // and embedders
	module + "/host/metrics":                  {"cmd/wfhost"},                               // and embedders
	"golang.org/x/tools":                      {"guest-sdk/go/wfhostvet", "cmd/wfhostvet"},  // which no workflow and no host has in it
	module + "/store/pebblestore":             {"host", "store/backup", "cmd/wfhost/bench"}, // its commits are what a machine can do
	module + "/host/internal/runtime":         {"host"},
	module + "/host/internal/engine/linear":   {"host/internal/engine/wazero"},
	module + "/host/internal/engine/artifact": {"host/internal/engine/wazero"},
	module + "/host/internal/wasm/validate":   {"host"},
	module + "/host/internal/wasm/instrument": {"host/internal/engine/artifact", "host/internal/engine/wazero"},
}

// leaves lists what packages of the pure core may import besides the standard library.
var leaves = map[string][]string{
	"abi":                 {},
	"cron":                {"abi"},
	"host/internal/clock": {"golang.org/x/sys/unix"},
	"host/internal/module": {"abi", "host/internal/clock", "host/internal/engine", "host/internal/lru", "store",
		"golang.org/x/sys/unix"},
	"host/internal/timers":        {},
	"host/internal/wasm/validate": {"abi", "host/internal/wasm"},
	"store":                       {},
	"host/internal/journal":       {"abi", "host/internal/timers", "store"},
	"host/internal/replay":        {"abi", "host/internal/journal", "store"},
	"host/internal/run":           {"abi", "host/internal/journal", "host/internal/traceid", "store"},
	"host/internal/lru":           {},
	"host/internal/limits": {"abi", "host/internal/clock", "host/internal/handler", "host/internal/journal",
		"host/internal/lifecycle", "host/internal/run", "host/internal/timers", "store"},
	"host/internal/fairqueue": {},
	"host/internal/datadir":   {"store", "store/dirs", "golang.org/x/sys/unix"},
	"host/internal/archive":   {"abi", "host/internal/journal", "store"},
	"host/internal/retention": {"host/internal/journal", "host/internal/run", "store"},
	"host/internal/schema": {"github.com/santhosh-tekuri/jsonschema/v6", "github.com/santhosh-tekuri/jsonschema/v6/kind",
		"abi", "host/internal/lru"},
	"host/internal/schedule":  {"abi", "cron", "host/internal/lifecycle", "store"},
	"host/internal/lifecycle": {"store"},
	"host/internal/shard": {"abi", "host/internal/clock", "host/internal/fairqueue", "host/internal/lru", "host/internal/run",
		"host/internal/timers", "store"},
	"worker":                        {},
	"client":                        {"abi"},
	"host/internal/quarantine":      {"abi", "host/internal/clock", "host/internal/journal", "store", "golang.org/x/sys/unix"},
	"host/internal/engine":          {},
	"host/internal/engine/linear":   {"abi", "golang.org/x/sys/unix"},
	"host/internal/wasm/instrument": {"host/internal/wasm"},
	"host/internal/wasm":            {},
	"host/internal/engine/calls":    {"abi", "host/internal/engine"},
	"store/memstore":                {"abi", "store"},
	"store/seal":                    {"store"},
	"store/transfer":                {"store"},
	"definition":                    {"abi", "cron", "definition/expression"},
	"definition/yamltext":           {"definition", "go.yaml.in/yaml/v4"},
	"definition/interpret":          {"abi", "cron", "definition", "definition/expression", "guest-sdk/go/workflow"}, // no privileges
	"definition/interpreter":        {"definition", "definition/interpret"},
	"guest-sdk/js":                  {},
	"internal/segment":              {},
	"typescript/engine":             {"github.com/tetratelabs/wazero", "github.com/tetratelabs/wazero/api", "internal/segment"},
	"typescript":                    {"github.com/evanw/esbuild/pkg/api", "abi", "guest-sdk/js", "typescript/engine"},
}

func TestDirections(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		for _, i := range p.Imports {
			for prefix, allowed := range only {
				if (i == prefix || strings.HasPrefix(i, prefix+"/")) && !strings.HasPrefix(p.ImportPath, prefix) && !slices.Contains(allowed, name) {
					t.Errorf("%s imports %s, which only %v may", name, i, allowed)
				}
			}
			rest := strings.TrimPrefix(i, module+"/")
			if allowed, leaf := leaves[name]; leaf && strings.Contains(i, ".") && !slices.Contains(allowed, rest) {
				t.Errorf("%s imports %s, it may import %v and the standard library", name, i, allowed)
			}
		}
		if base := filepath.Base(name); slices.Contains([]string{"util", "utils", "common", "types", "models", "helpers"}, base) {
			t.Errorf("package %s: its name says nothing", name)
		}
	}
}

const (
	maxFileLines     = 500
	maxFunctionLines = 70
	maxLineBytes     = 130 // 120 columns, and a few bytes for characters of more than one
	maxTestLines     = 800
)

// tracked lists the files of the repository.
func tracked(t *testing.T, suffix string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && (path == ".git" || path == "bin") {
			return filepath.SkipDir
		}
		if err == nil && !d.IsDir() && strings.HasSuffix(path, suffix) && path != ".git" { // a file in a worktree
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestSizes(t *testing.T) {
	for _, path := range tracked(t, ".go") {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		test := strings.HasSuffix(path, "_test.go")
		lines := bytes.Count(b, []byte{'\n'})
		if lines > maxTestLines || !test && lines > maxFileLines {
			t.Errorf("%s has %d lines", path, lines)
		}
		if test {
			continue
		}
		for i, line := range bytes.Split(b, []byte{'\n'}) {
			if len(line) > maxLineBytes {
				t.Errorf("%s:%d has %d bytes", path, i+1, len(line))
			}
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, b, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
				if n > maxFunctionLines {
					t.Errorf("%s: function %s has %d lines", path, fn.Name.Name, n)
				}
			}
		}
	}
}

// forbidden lists calls that would read time or the environment past the clock.
var forbidden = []string{"time.Now", "time.Sleep", "time.After", "time.NewTimer", "time.NewTicker", "time.AfterFunc",
	"time.Tick", "time.Since", "time.Until", "os.Getenv", "os.LookupEnv"}

func TestForbiddenCalls(t *testing.T) {
	for _, path := range tracked(t, ".go") {
		test := strings.HasSuffix(path, "_test.go")
		if strings.HasPrefix(path, "guest-sdk") || strings.HasPrefix(path, "definition/interpret") || strings.HasPrefix(path, "examples") || strings.Contains(path, "testdata") ||
			strings.HasPrefix(path, "host/internal/clock") || path == "host/tune.go" || path == "store/pebblestore/logfs/elapsed.go" || path == "store/postgres/elapsed.go" ||
			(strings.HasPrefix(path, "cmd/") || strings.HasPrefix(path, "bench/")) && !test {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok {
					name := x.Name + "." + s.Sel.Name
					if slices.Contains(forbidden, name) && (!test || name == "time.Sleep") {
						t.Errorf("%s uses %s", fset.Position(s.Pos()), name)
					}
				}
			}
			return true
		})
		for _, i := range f.Imports {
			if p := strings.Trim(i.Path.Value, `"`); strings.HasPrefix(p, "math/rand") && !test &&
				!strings.HasPrefix(path, "host/internal/replay") { // ChaCha8, seeded by the run
				t.Errorf("%s imports %s", path, p)
			}
		}
	}
}

func TestNoBinariesAndNoForeignPlaces(t *testing.T) {
	// One is the input of a benchmark, of 2 KiB, which depends on the compiler that has made it. Its script is beside it.
	if out, err := exec.Command("git", "ls-files", "*.wasm", ":!host/internal/wasm/instrument/testdata/budget/programs.wasm").Output(); err == nil && len(out) > 0 {
		t.Errorf("modules are built, they must not be committed: %s", out)
	}
	for _, path := range tracked(t, "") {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, place := range []string{"/wor" + "k/", "../sha" + "red"} {
			if bytes.Contains(b, []byte(place)) {
				t.Errorf("%s mentions %s", path, place)
			}
		}
	}
}

// The planted faults are looked for by a target of its own, which takes minutes. Here they only have to fit the code.
func TestFaultsApply(t *testing.T) {
	patches, err := filepath.Glob("host/testdata/faults/*.patch")
	more, err2 := filepath.Glob("host/internal/sim/testdata/faults/*.patch")
	rest, err3 := filepath.Glob("store/testdata/faults/*.patch")
	patches = slices.Concat(patches, more, rest)
	if err != nil || err2 != nil || err3 != nil || len(patches) < 20 {
		t.Fatal(len(patches), err, err2, err3)
	}
	for _, p := range patches {
		if out, err := exec.Command("git", "apply", "--check", p).CombinedOutput(); err != nil {
			t.Errorf("%s does not apply: %s", p, out)
		}
	}
}
