package typescript_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/wfhost/wfhost/guest-sdk/js"
)

// In a page of the manual: its TypeScript blocks, and the commands that run a file.
var (
	tsBlock = regexp.MustCompile("(?ms)^```ts\n(.*?)^```$")
	tsRun   = regexp.MustCompile(`(?m)^ {4}wfhost run (\S+)\.ts\b.*?(?: --input '([^']*)')?$`)
)

// manualProgram is a block of the manual that is a complete file.
type manualProgram struct{ page, text string }

// manualPrograms returns the blocks that are workflows, and the blocks that are tests of them.
func manualPrograms(t *testing.T) (workflows, tests []manualProgram) {
	t.Helper()
	pages, err := filepath.Glob("../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../README.md", "../guest-sdk/js/README.md") {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range tsBlock.FindAllStringSubmatch(string(b), -1) {
			switch p := (manualProgram{page, m[1]}); {
			case strings.Contains(p.text, `from "node:test"`):
				tests = append(tests, p)
			case strings.Contains(p.text, `from "`+sdk.Package+`"`):
				workflows = append(workflows, p)
			}
		}
	}
	return workflows, tests
}

// TestManual runs each workflow of the manual that is a complete file, with the command on its page.
func TestManual(t *testing.T) {
	workflows, _ := manualPrograms(t)
	if len(workflows) == 0 {
		t.Error("the manual has no workflow in TypeScript")
	}
	for _, w := range workflows {
		page, err := os.ReadFile(w.page)
		if err != nil {
			t.Fatal(err)
		}
		run := tsRun.FindStringSubmatch(string(page))
		if run == nil {
			t.Errorf("%s: no command runs the workflow", w.page)
			continue
		}
		dir := t.TempDir()
		write(t, dir, map[string]string{run[1] + ".ts": w.text})
		p := loadFrom(t, filepath.Join(dir, run[1]+".ts"))
		p.begin(run[1], "r", json.RawMessage(run[2]))
		p.Finish("r")
		if _, err := p.ResultRaw(p.ctx, "r"); err != nil {
			t.Errorf("%s: %v", w.page, err)
		}
	}
}

// TestManualTests runs the tests of the manual that are complete files, under Node, with the first workflow of their
// page.
func TestManualTests(t *testing.T) {
	workflows, tests := manualPrograms(t)
	if len(tests) == 0 {
		t.Error("the manual has no test in TypeScript")
	}
	node := nodeOfTypeScript(t, "the tests of the manual did not run")
	for _, test := range tests {
		dir := t.TempDir()
		if err := os.CopyFS(filepath.Join(dir, "node_modules", sdk.Package), sdk.Files); err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(test.page)
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]string{"manual.test.ts": test.text, "package.json": `{"type": "module"}`}
		for _, w := range workflows {
			if run := tsRun.FindStringSubmatch(string(page)); w.page == test.page && run != nil {
				files[run[1]+".ts"] = w.text
			}
		}
		write(t, dir, files)
		cmd := exec.Command(node, "--test", "manual.test.ts")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "pass 1") {
			t.Errorf("%s: %v\n%s", test.page, err, out)
		}
	}
}
