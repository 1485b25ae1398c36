package admission

import "testing"

// A large guest gets in however many others come, even if they hold all the memory and none of them has to leave.
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
