package typescript_test

import "testing"

// TestDateAtLoad keeps changes to Date and Math that a program makes while it is loaded: there is only one Date, and
// a replaced function stays replaced.
func TestDateAtLoad(t *testing.T) {
	p := load(t, "loading.ts")
	p.begin("date", "date", nil)
	if got, want := p.ends("date"), "[true,true,true,true,true,true,true,true,true,true]"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	p.begin("own", "own", nil)
	if got, want := p.ends("own"), `[0.5,"real",true]`; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}
