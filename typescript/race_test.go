package typescript_test

import (
	"strings"
	"testing"
	"time"
)

// TestPlainRaces warns of a wait that has lost a plain race and takes a signal, however the race came to it, and of nothing else.
func TestPlainRaces(t *testing.T) {
	p := load(t, "races.ts")
	for name, warned := range map[string]bool{"then": true, "wrapped": true, "later": true, "any": true, "direct": true, "next": true,
		"again": false, "others": false, "ended": false, "withdrawn": false} {
		p.begin(name, name, nil)
		for range 4 {
			p.Advance(10 * time.Second)
			_ = p.Signal(p.ctx, name, "go", nil) // a run that has ended takes none
			p.Settle()
		}
		if got := p.ends(name); got != "true" && got != "false" {
			t.Errorf("%s: %s", name, got)
		}
		logs := strings.Join(p.logs(name), "\n")
		if strings.Contains(logs, "use race({…}) of @wfhost/workflow") != warned || strings.Count(logs, "race({…})") > 1 {
			t.Errorf("%s: warned is not %t: %q", name, warned, logs)
		}
	}
}

// TestRacesKeepNothing has one promise in more races than there is memory for, if anything were kept of each.
func TestRacesKeepNothing(t *testing.T) {
	p := load(t, "races.ts")
	for name, want := range map[string]string{"long": "true", "wrong": `["TypeError","TypeError"]`} {
		p.begin(name, name, nil)
		if got := p.ends(name); got != want {
			t.Errorf("%s: %s, not %s", name, got, want)
		}
	}
}
