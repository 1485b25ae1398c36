package artifact

import (
	"sync"
	"testing"
)

// One caller at a time holds a name, other names are independent, and in the end nothing is left.
func TestTurns(t *testing.T) {
	var turns NameLocks
	endOther := turns.Take("other")
	var all sync.WaitGroup
	n := 0
	for range 10 {
		all.Go(func() {
			defer turns.Take("name")()
			n++ // the race detector reports two holders
		})
	}
	all.Wait()
	endOther()
	if n != 10 || len(turns.of) > 0 {
		t.Error(n, turns.of)
	}
}
