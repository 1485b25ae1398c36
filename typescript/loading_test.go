package typescript_test

import "testing"

// TestDateAtLoad keeps what a program has made of Date and Math while it was loaded: there is one Date, and what the program has put
// in the place of a function stays there.
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
