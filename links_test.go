package wfhost_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLinks follows every relative link of the documentation. A link whose text is the name of a test leads to a file
// that has that test.
func TestLinks(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.md", "*/*.md", "*/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	link := regexp.MustCompile(`\[([^\]]*)\]\(([^)#:," ]+)(?:#[^)]*)?\)`)
	n := 0
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(prose(string(b)), -1) {
			target := filepath.Join(filepath.Dir(f), m[2])
			n++
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", f, m[2])
				continue
			}
			name := strings.Trim(m[1], "`")
			if !regexp.MustCompile(`^Test[A-Z]`).MatchString(name) {
				continue
			}
			if text, err := os.ReadFile(target); err != nil || !strings.Contains(string(text), "func "+name+"(") {
				t.Errorf("%s: %s has no test %s", f, m[2], name)
			}
		}
	}
	if n < 40 {
		t.Fatalf("only %d links were found", n)
	}
}

// prose returns a page without its blocks of code, which have brackets of their own.
func prose(text string) string {
	var b strings.Builder
	code := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			code = !code
		} else if !code && !strings.HasPrefix(line, "    ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestSecurityNamesTests has each promise of SECURITY.md name a test that is there, or say that it is not one.
func TestSecurityNamesTests(t *testing.T) {
	b, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err = filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	for _, m := range name.FindAllSubmatch(b, -1) {
		if !tests[string(m[1])] {
			t.Errorf("there is no test %s", m[1])
		}
	}
	_, promises, _ := strings.Cut(string(b), "## What is promised")
	var all []string
	within := false
	for line := range strings.Lines(promises) {
		switch item := regexp.MustCompile(`^(- |\d\. |\| )`).MatchString(line) && !strings.HasPrefix(line, "| it tries |"); {
		case item:
			all, within = append(all, line), true
		case within && strings.HasPrefix(line, "  "):
			all[len(all)-1] += line
		default:
			within = false
		}
	}
	for _, text := range all {
		if !name.MatchString(text) && !strings.Contains(text, "Not promised") {
			t.Errorf("no test is named for: %s", text)
		}
	}
	if len(all) < 50 {
		t.Errorf("only %d promises were found", len(all))
	}
}
