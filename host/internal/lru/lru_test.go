package lru

import (
	"fmt"
	"testing"
)

func TestLeastRecentlyUsedGivesWay(t *testing.T) {
	l := List[string]{Limit: 100}
	places := map[string]*Item[string]{}
	for _, s := range []string{"a", "b", "c", "d"} {
		places[s] = l.Add(s, 40)
	}
	l.Remove(places["a"]) // it is used again
	places["a"] = l.Add("a", 10)
	l.Remove(places["c"])
	places["c"] = l.Add("c", 60)
	var gone []string
	for s, ok := l.Excess(); ok; s, ok = l.Excess() {
		gone = append(gone, s)
		l.Remove(places[s])
	}
	if got := fmt.Sprint(gone); got != "[b d]" || l.Bytes() != 70 {
		t.Errorf("%s give way, %d bytes are kept", got, l.Bytes())
	}
	l.Remove(places["c"])
	l.Remove(places["a"])
	if l.Bytes() != 0 || l.newest != nil || l.oldest != nil {
		t.Errorf("an empty list keeps %d bytes", l.Bytes())
	}
}
