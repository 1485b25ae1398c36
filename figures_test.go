package wfhost_test

import (
	"os"
	"regexp"
	"testing"
)

// TestFiguresNameTheirRelease: figures of speed are repeated for each minor release. Those on these pages say which commit was
// measured, on which day, and of which release it is.
func TestFiguresNameTheirRelease(t *testing.T) {
	version, err := os.ReadFile("cmd/wfhost/version.go")
	if err != nil {
		t.Fatal(err)
	}
	now := regexp.MustCompile(`releaseNumber = "(v\d+\.\d+)\.`).FindSubmatch(version)
	if now == nil {
		t.Fatal("cmd/wfhost/version.go has no releaseNumber")
	}
	measured := regexp.MustCompile(`Measured on \d{1,2} [A-Z][a-z]+ 20\d\d\s+at\s+commit\s+[0-9a-f]{8}\s+\((v\d+\.\d+)\)`)
	for _, page := range []string{"README.md", "docs/operate/performance.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		switch of := measured.FindSubmatch(text); {
		case of == nil:
			t.Errorf("%s does not say `Measured on DAY at commit COMMIT (RELEASE)`", page)
		case string(of[1]) != string(now[1]):
			t.Errorf("the figures of %s are of %s, and this is %s: measure them again with make bench-peers", page, of[1], now[1])
		}
	}
}
