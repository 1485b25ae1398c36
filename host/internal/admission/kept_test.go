package admission

import "testing"

// A large guest comes in however many others come, also where these hold all the memory and it is the turn of none to go.
func TestLargeIsNotStarvedOfMemory(t *testing.T) {
	const small = LargeBytes / 2
	a := New(64, 8*LargeBytes, 8*LargeBytes)
	var flood []*Place
	for range 1000 {
		flood = append(flood, asksFor(a, small))
	}
	waits := asksFor(a, 4*LargeBytes)
	n := 0
	for ; waits.at == outside && n < len(flood); n++ {
		flood[n].Leave()
	}
	if n > 2*maxOvertaken {
		t.Errorf("%d others went first", n)
	}
}
