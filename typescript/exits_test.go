package typescript_test

import (
	"testing"
)

// TestExits leaves a loop over a generator in each way: its cleanup, which sleeps and makes a step, is awaited.
func TestExits(t *testing.T) {
	p := load(t, "unlock.ts")
	for way, end := range map[string]string{"break": "", "return": "", "continue": "", "throw": `,"body"`} {
		p.begin("unlock", way, way)
		if got, want := p.ends(way), `["page 1","unlock begins","unlocked"`+end+`]`; got != want {
			t.Errorf("%s: %s, not %s", way, got, want)
		}
	}
}
