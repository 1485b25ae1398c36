package abi

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestErrorPage compares docs/interfaces/errors.md with the codes, and with the kinds that the host gives failures.
func TestErrorPage(t *testing.T) {
	b, err := os.ReadFile("../docs/interfaces/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(b), "## Failures in a workflow")
	section, _, _ = strings.Cut(section, "## Answers of the API")
	codes, kinds, _ := strings.Cut(section, "### Kinds")
	for _, name := range codeNames {
		if !strings.Contains(codes, "`"+name+"`") {
			t.Errorf("the page does not have the code %s", name)
		}
	}
	row := regexp.MustCompile("(?m)^\\| `([A-Z_a-z]+)` \\|")
	for _, m := range row.FindAllStringSubmatch(codes, -1) {
		if !slices.Contains(codeNames[:], m[1]) {
			t.Errorf("the page has the code %s, which there is not", m[1])
		}
	}
	known := []string{KindError, KindTimeout, KindJournal, KindTrap, KindMemory, KindStack, KindUnknown}
	literal := regexp.MustCompile(`abi\.Error\{[^}]*Kind: +"(\w+)"`)
	err = filepath.WalkDir("../host/internal", func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range literal.FindAllSubmatch(text, -1) {
			known = append(known, string(m[1]))
		}
		return err
	})
	if err != nil || len(known) < 10 {
		t.Fatal(known, err)
	}
	var listed []string
	for _, m := range row.FindAllStringSubmatch(kinds, -1) {
		listed = append(listed, m[1])
		if !slices.Contains(known, m[1]) {
			t.Errorf("the page has the kind %s, which there is not", m[1])
		}
	}
	for _, kind := range known {
		if !slices.Contains(listed, kind) {
			t.Errorf("the page does not have the kind %s", kind)
		}
	}
}
