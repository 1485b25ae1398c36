package page

import (
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

// TestHeadlineOfAStepThatNothingPerforms shows runs whose step cannot be performed now, for each of the host's
// reasons: the headline does not claim that it is being performed, and the facts say what to do. Without a reason, or
// with another step's reason, the step counts as being performed.
func TestHeadlineOfAStepThatNothingPerforms(t *testing.T) {
	now := time.Now()
	for _, c := range []struct{ reason, headline, do string }{
		{"", `Step "pay" is being performed: attempt 1, by host/bank`, ""},
		{`handler "host/other" is not registered here`, `Step "pay" is being performed: attempt 1, by host/bank`, ""},
		{`handler "host/bank" is not registered here`, `Step "pay" cannot be performed: handler host/bank is not registered on this server`,
			"--handler bank=URL"},
		{`step "pay" waits for a worker of handler "host/bank"`, `Step "pay" is not being performed: no worker has taken it from host/bank yet`,
			"Start a worker that serves bank"},
		{`step "pay" waits for a slot of handler "host/bank", whose limit is 3; 1 other attempt waits`,
			`Step "pay" waits for a slot of handler "host/bank", whose limit is 3; 1 other attempt waits`, ""},
	} {
		var v verdict
		tl := &timeline{Rows: []*row{{Kind: "step", Name: "pay", Target: "host/bank", State: open}}}
		v.live(&host.Run{Status: host.Running, Reason: c.reason, Started: now}, tl, now)
		facts := strings.Join(v.Facts, " ")
		if v.Headline != c.headline && v.Headline != c.headline+"." || c.do != "" && !strings.Contains(facts, c.do) {
			t.Errorf("%s: %q, %q", c.reason, v.Headline, facts)
		}
	}
}
