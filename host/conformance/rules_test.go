package conformance_test

import (
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/conformance"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestRules checks the rules on a host. TestRulesInEnv of guest-sdk/go/stories/rules checks them in the test
// environment of the Go SDK.
func TestRules(t *testing.T) {
	report, err := conformance.Check(t.Context(), hosttest.Build(t, "../../guest-sdk/go/stories"),
		conformance.Options{CacheDir: host.UserCacheDir(), Only: []string{conformance.RulesWorkflow}})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range report.Outcomes {
		for _, fault := range o.Faults {
			t.Error(fault)
		}
	}
	if report.Passed != 1 {
		t.Errorf("%+v", report)
	}
}
