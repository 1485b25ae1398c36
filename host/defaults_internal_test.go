package host

import (
	"os"
	"reflect"
	"regexp"
	"strconv"
	"testing"
)

// TestDefaultsAreDocumented compares memory limits with docs/operate/memory.md.
func TestDefaultsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/operate/memory.md")
	if err != nil {
		t.Fatal(err)
	}
	cfg := reflect.ValueOf(Config{}.withDefaults())
	found := regexp.MustCompile("`(\\w+Bytes)` \\((\\d+) (M|G)iB\\)").FindAllStringSubmatch(string(text), -1)
	for _, m := range found {
		number, _ := strconv.ParseInt(m[2], 10, 64)
		if m[3] == "G" {
			number <<= 10
		}
		if got := cfg.FieldByName(m[1]).Int(); got != number<<20 {
			t.Errorf("docs/operate/memory.md says that %s is %s %siB, it is %d bytes", m[1], m[2], m[3], got)
		}
	}
	if len(found) < 3 {
		t.Errorf("only %d defaults were found", len(found))
	}
}
