package typescript_test

import (
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

// TestSagasSayWhatTheyUndo cancels a run whose saga compensates a step: a restart that would keep the step is
// refused, and its plan names the compensation.
func TestSagasSayWhatTheyUndo(t *testing.T) {
	p := load(t, "cancel.ts")
	p.begin("saga", "r", nil)
	p.Advance(time.Minute)
	p.cancel("r")
	p.ends("r")
	plan, err := p.PlanRestart(p.ctx, "r", host.RestartOptions{From: "sleep"})
	if err != nil || !strings.Contains(plan.Refused, `body "refund" has undone`) {
		t.Errorf("%+v, %v", plan, err)
	}
	for _, c := range plan.Kept {
		if c.Name == "reserve" && c.Note != `undone by body "refund"` {
			t.Errorf("%+v", c)
		}
	}
	plan, err = p.PlanRestart(p.ctx, "r", host.RestartOptions{From: "reserve"})
	if err != nil || plan.Refused != "" {
		t.Errorf("%+v, %v", plan, err)
	}
}
