package conformance_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/conformance"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestCheckBites runs stories that are told wrongly.
func TestCheckBites(t *testing.T) {
	report, err := conformance.Check(t.Context(), hosttest.Build(t, "testdata/wrong"), conformance.Options{CacheDir: host.UserCacheDir()})
	if err != nil {
		t.Fatal(err)
	}
	bites(t, report, map[string]string{
		"race-lost": "the journal differs in line 7", // the loser is not withdrawn
		"race-won":  "the journal differs in line 8",
		"failing":   "the run is completed, and should be failed",
		"chance":    "the result is",
		"queries":   "should be {\"at\":\"nap\"}",
	})
	if report.Skipped == 0 {
		t.Error("no story was skipped")
	}
}

// bites compares the faults of a report with the expected ones: a part of the text for each story with a mistake, and
// none for the others.
func bites(t *testing.T, report *conformance.Report, want map[string]string) {
	t.Helper()
	for _, o := range report.Outcomes {
		if o.Skipped != "" {
			continue
		}
		all := strings.Join(o.Faults, "\n")
		if fault, wrong := want[o.Story]; !strings.Contains(all, fault) || !wrong && all != "" {
			t.Errorf("%s: its faults are %q, and should be %q", o.Story, all, fault)
		}
		delete(want, o.Story)
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}

// TestCheckBitesC puts mistakes into some of the C stories: the check finds these and no others.
func TestCheckBitesC(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"workflow.h", "stories/text.h", "stories/stories.c"} {
		b, err := os.ReadFile(filepath.Join("../../guest-sdk/c", file))
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		if file == "stories/stories.c" {
			for old, broken := range map[string]string{
				"wf_cancel(both[stopped]);":       "",                                // the loser of a race takes the next signal
				"wf_step_end_s(0, \"\\\"b\\\"\")": "wf_step_end_s(0, \"\\\"c\\\"\")", // a body returns something else
				"&& number(&in) > 0":              "",                                // each update is accepted
			} {
				if strings.Count(text, old) != 1 {
					t.Fatalf("%q is %d times in the stories, and should be there once", old, strings.Count(text, old))
				}
				text = strings.Replace(text, old, broken, 1)
			}
		}
		to := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	report, err := conformance.Check(t.Context(), compile(t, filepath.Join(dir, "stories")), conformance.Options{CacheDir: host.UserCacheDir()})
	if err != nil {
		t.Fatal(err)
	}
	bites(t, report, map[string]string{
		"race-lost": "the journal differs in line 7",
		"race-won":  "the journal differs in line 8",
		"bodies":    "the result is",
		"updates":   "only more can be added",
	})
	for _, o := range report.Outcomes {
		if rules := o.Story == conformance.RulesWorkflow; rules != (o.Skipped != "") { // C has no workflow of the rules
			t.Errorf("%s is skipped: %q", o.Story, o.Skipped)
		}
	}
}

// TestUnknownStory refuses a name that is none.
func TestUnknownStory(t *testing.T) {
	_, err := conformance.Check(t.Context(), nil, conformance.Options{Only: []string{"fairy-tale"}})
	if err == nil || !strings.Contains(err.Error(), `there is no story "fairy-tale"; the stories are bodies, `) {
		t.Error(err)
	}
}
