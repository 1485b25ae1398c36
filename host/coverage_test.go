package host_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fakeClockScenarios are the acceptance scenarios that run here, through the Go API, with a fake clock and without
// wall time. S01, S02, S26 and S27 need the machine's clock by their nature, and have tests that use it; S36 is a
// test of the store, S87 one of the command line.
var fakeClockScenarios = strings.Fields(`S03 S04 S05 S06 S07 S08 S10 S12 S13 S14 S15 S16 S18 S19 S21 S24 P01 S28 S32 S33
	S39 S41 S42 S43 S45 S47 S48 S49 S50 S52 S62 S64 S68 S69 S53 S54 S56 S58 S59 S63 S66 S67 S70 S71 S72 S73 S74 S75 S76 S78 S79 S81 S82`)

// TestS86_EveryScenarioHasATest finds each scenario's number in the name of a test of this package, and no sleep
// of the machine's clock in the files where those tests are.
func TestS86_EveryScenarioHasATest(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^func (Test\w+)`)
	all := ""
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range names.FindAllStringSubmatch(string(b), -1) {
			all += m[1] + "_\n"
			if strings.Contains(string(b), "time."+"Sleep(") {
				t.Errorf("%s waits for the machine's clock", f)
			}
		}
	}
	for _, number := range fakeClockScenarios {
		if !strings.Contains(all, number+"_") {
			t.Errorf("no test is named after %s", number)
		}
	}
}
