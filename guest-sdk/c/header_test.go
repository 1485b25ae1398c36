package c_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/abi"
)

// TestHeader compares the header with the ABI: every function is there once, with as many values as it takes.
func TestHeader(t *testing.T) {
	b, err := os.ReadFile("workflow.h")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, m := range regexp.MustCompile(`(?s)WF_IMPORT\("(\w+)"\)[^(]*\(([^)]*)\);`).FindAllStringSubmatch(string(b), -1) {
		sig, ok := abi.Functions[m[1]]
		if !ok {
			t.Errorf("%s is no function of the ABI", m[1])
		}
		n := 0
		for _, p := range regexp.MustCompile(`,`).Split(m[2], -1) {
			if p != "void" {
				n++
			}
		}
		if n != len(sig.Params) {
			t.Errorf("%s takes %d values in the header, the ABI says %d", m[1], n, len(sig.Params))
		}
		found[m[1]]++
	}
	for name := range abi.Functions {
		if found[name] != 1 {
			t.Errorf("%s is %d times in the header", name, found[name])
		}
	}
	codes := regexp.MustCompile(`WF_([A-Z_]+) = (\d+)`).FindAllStringSubmatch(string(b), -1)
	for n := abi.Code(0); n <= abi.RunBody; n++ {
		if !slices.ContainsFunc(codes, func(m []string) bool { return m[1] == n.String() }) {
			t.Errorf("the header has no code %s", n)
		}
	}
}
