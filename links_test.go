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
		for _, m := range link.FindAllStringSubmatch(string(b), -1) {
			target := filepath.Join(filepath.Dir(f), m[2])
			n++
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", f, m[2])
				continue
			}
			name := strings.Trim(m[1], "`")
			if !strings.HasPrefix(name, "Test") {
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
