package httpapi

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestErrorPage compares the table of docs/interfaces/errors.md with the problem codes and their statuses.
func TestErrorPage(t *testing.T) {
	b, err := os.ReadFile("../../docs/interfaces/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(b), "## Answers of the API")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]string{} // the statuses of a code
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([0-9, ]+) \\|").FindAllStringSubmatch(section, -1) {
		listed[m[1]] = m[2]
	}
	all := allCodes()
	for _, code := range all {
		if listed[code.(string)] == "" {
			t.Errorf("the page does not have the code %v", code)
		}
	}
	for code := range listed {
		if !slices.Contains(all, any(code)) {
			t.Errorf("the page has the code %s, which there is not", code)
		}
	}
	for _, k := range kinds {
		if !strings.Contains(listed[k.code], strconv.Itoa(k.status)) {
			t.Errorf("%s has the status %d, the page says %s", k.code, k.status, listed[k.code])
		}
	}
	for status, code := range codes {
		if !strings.Contains(listed[code], strconv.Itoa(status)) {
			t.Errorf("%s has the status %d, the page says %s", code, status, listed[code])
		}
	}
}
