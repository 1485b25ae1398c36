package wfhost_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// snippetPackages lists the packages that snippets may name. A snippet that has no import clause gets the imports that it needs.
var snippetPackages = []string{
	"context", "database/sql", "errors", "fmt", "io", "log", "log/slog", "net", "net/http", "os", "os/signal", "slices", "strings", "sync", "testing",
	"testing/synctest", "time",
	module + "/client", module + "/client/sqltx", module + "/cron", module + "/definition", module + "/definition/module", module + "/definition/yamltext",
	module + "/guest-sdk/go/workflow", module + "/guest-sdk/go/workflow/fetch", module + "/host", module + "/host/hosttest",
	module + "/host/httpapi", module + "/host/metrics", module + "/host/page", module + "/host/steps/httpstep", module + "/host/traces",
	module + "/store/postgres", module + "/worker", "golang.org/x/sync/errgroup", "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp",
}

// snippetNames declares what snippets use without saying where it comes from: a context, an open host, a compiled module.
var snippetNames = map[string]string{
	"ctx":         "var ctx context.Context",
	"h":           "var h *host.Host",
	"c":           "var c *client.Client",
	"wasm":        "var wasm []byte",
	"t":           "var t *testing.T",
	"mux":         "var mux *http.ServeMux",
	"run":         "var run host.Run",
	"token":       "var token string",
	"yourSession": "func yourSession(r *http.Request) (struct{ Name string }, bool) { panic(0) }",
}

// A snippet is a block of Go in a page.
type snippet struct {
	page string
	line int
	text string
	with string // declarations of the page's last comment <!-- with … -->, which readers do not see
}

// snippets returns the Go blocks of a page.
func snippets(page, text string) []snippet {
	var all []snippet
	with, open := "", (*snippet)(nil)
	hidden := false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case open != nil && strings.HasPrefix(line, "```"):
			all, open = append(all, *open), nil
		case open != nil:
			open.text += line + "\n"
		case hidden && strings.HasPrefix(line, "-->"):
			hidden = false
		case hidden:
			with += line + "\n"
		case line == "<!-- with":
			with, hidden = "", true
		case line == "```go" || strings.HasPrefix(line, "```go "):
			open = &snippet{page: page, line: i + 1, with: with}
		}
	}
	return all
}

// source returns a file that has the snippet in it, and everything that it names without declaring it.
func (s snippet) source(paths map[string]string) (string, error) {
	if strings.HasPrefix(s.text, "package ") || strings.Contains(s.text, "\npackage ") {
		return s.text, nil
	}
	body := s.text
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+body, 0); err != nil {
		body = "func _() error {\n" + s.text + "\nreturn nil\n}\n"
	}
	body += s.with
	var imports string
	for range 4 { // a name may need an import, and no more
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+imports+body, 0)
		if err != nil {
			return "", err
		}
		grown := false
		for _, id := range f.Unresolved {
			if p, ok := paths[id.Name]; ok && !strings.Contains(imports, fmt.Sprintf("%q", p)) {
				imports, grown = imports+fmt.Sprintf("import %q\n", p), true
			} else if text, ok := snippetNames[id.Name]; ok && !strings.Contains(body, "\n"+text+"\n") {
				body, grown = body+"\n"+text+"\n", true
			}
		}
		if !grown {
			break
		}
	}
	return "package p\n" + imports + body, nil
}

// exports returns an importer of compiled packages.
func exports(t *testing.T, fset *token.FileSet) types.Importer {
	t.Helper()
	args := append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}"}, snippetPackages...)
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		files[path] = file
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
}

// TestSnippets type-checks each Go block of the manual against the packages as they are.
func TestSnippets(t *testing.T) {
	fset := token.NewFileSet()
	imp := exports(t, fset)
	paths := map[string]string{}
	for _, p := range snippetPackages {
		paths[filepath.Base(p)] = p
	}
	n := 0
	for _, page := range manual(t) {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range snippets(page, string(b)) {
			n++
			if first, _, _ := strings.Cut(s.text, "\n"); strings.HasPrefix(first, "// ") && strings.HasSuffix(first, "_test.go") {
				continue // a file beside another one: TestTutorials of the command writes both, and runs them
			}
			at := fmt.Sprintf("%s:%d", s.page, s.line)
			text, err := s.source(paths)
			if err != nil {
				t.Errorf("%s: %v", at, err)
				continue
			}
			f, err := parser.ParseFile(fset, at, text, 0)
			if err != nil {
				t.Errorf("%s: %v", at, err)
				continue
			}
			check := types.Config{Importer: imp, Error: func(err error) {
				if e, ok := err.(types.Error); !ok || !e.Soft { // a snippet may leave a variable to its reader
					t.Errorf("%s: %v", at, err)
				}
			}}
			_, _ = check.Check("p", fset, []*ast.File{f}, nil)
		}
	}
	if n < 30 {
		t.Errorf("only %d snippets were found", n)
	}
}

// manual lists the pages that users read.
func manual(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md", "SECURITY.md", "CONTRIBUTING.md"}
	found, err := filepath.Glob("docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	return append(pages, found...)
}

// anchors returns the fragments by which GitHub links to the headings of a page.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	fence := false
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			fence = !fence
		}
		level := len(line) - len(strings.TrimLeft(line, "#"))
		if fence || level == 0 || level > 6 || !strings.HasPrefix(line[level:], " ") {
			continue
		}
		name := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(strings.TrimSpace(line[level:]), "$1")
		name = strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(name), ""), " ", "-")
		unique := name
		for i := 1; all[unique]; i++ {
			unique = fmt.Sprintf("%s-%d", name, i)
		}
		all[unique] = true
	}
	return all
}

// TestAnchors follows every link of the documentation to a heading.
func TestAnchors(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#: "]*)#([^) "]+)\)`)
	n := 0
	for _, page := range slices.Concat(manual(t), []string{"ARCHITECTURE.md", "RATIONALE.md", "CHANGELOG.md", "abi/ABI.md", "store/FORMAT.md"}) {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(prose(string(b)), -1) {
			target := filepath.Join(filepath.Dir(page), m[1])
			if m[1] == "" {
				target = page
			}
			if filepath.Ext(target) != ".md" {
				continue
			}
			n++
			text, err := os.ReadFile(target)
			if !anchors(string(text))[m[2]] {
				t.Errorf("%s: %s has no heading #%s %v", page, cmp.Or(m[1], page), m[2], err)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d links to headings were found", n)
	}
}
