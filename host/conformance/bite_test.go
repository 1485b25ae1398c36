package conformance_test

import (
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host/conformance"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestCheckBites runs stories that are told wrongly, and one of a workflow whose memory is not the same in each run.
func TestCheckBites(t *testing.T) {
	report, err := conformance.Check(t.Context(), hosttest.Build(t, "testdata/wrong"), conformance.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"race-lost": "the journal differs in line 7", // the loser is not withdrawn
		"race-won":  "the journal differs in line 8",
		"failing":   "the run is completed, and should be failed",
		"chance":    "the result is",
		"queries":   "should be {\"at\":\"nap\"}",
	}
	for _, o := range report.Outcomes {
		if o.Skipped != "" {
			continue
		}
		if all := strings.Join(o.Faults, "\n"); want[o.Story] == "" || !strings.Contains(all, want[o.Story]) {
			t.Errorf("%s: %q is not in %s", o.Story, want[o.Story], all)
		}
		delete(want, o.Story)
	}
	if len(want) > 0 || report.Skipped == 0 {
		t.Errorf("not found: %v; skipped: %d", want, report.Skipped)
	}
}

// TestUnknownStory refuses a name that is none.
func TestUnknownStory(t *testing.T) {
	_, err := conformance.Check(t.Context(), nil, conformance.Options{Only: []string{"fairy-tale"}})
	if err == nil || !strings.Contains(err.Error(), `there is no story "fairy-tale"; the stories are bodies, `) {
		t.Error(err)
	}
}
