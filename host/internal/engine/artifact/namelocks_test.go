package artifact

import (
	"sync"
	"testing"
)

// One has a name at a time, others go on meanwhile, and nothing is left in the end.
func TestTurns(t *testing.T) {
	var turns NameLocks
	endOther := turns.Take("other")
	var all sync.WaitGroup
	n := 0
	for range 10 {
		all.Go(func() {
			defer turns.Take("name")()
			n++ // the race detector sees two at a time
		})
	}
	all.Wait()
	endOther()
	if n != 10 || len(turns.of) > 0 {
		t.Error(n, turns.of)
	}
}
