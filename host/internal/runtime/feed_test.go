package runtime

import (
	"fmt"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/store"
)

func TestFeed(t *testing.T) {
	w := newWatchers()
	f, other := w.Feed(1, 3), w.Feed(2, 3)
	for _, id := range []string{"b", "a", "b"} {
		w.Changed(store.RunKey{Namespace: 1, ID: id}, false)
	}
	if !told(f.Changed()) || told(other.Changed()) {
		t.Error("the feed of the namespace is not told, or the other one is")
	}
	if ids, complete := f.Take(); !slices.Equal(ids, []string{"b", "a"}) || !complete {
		t.Errorf("taken are %q, %v", ids, complete)
	}
	if ids, complete := f.Take(); len(ids) > 0 || !complete {
		t.Errorf("taken again are %q, %v", ids, complete)
	}
	w.Changed(store.RunKey{Namespace: 1, ID: "b"}, true)
	if ids, _ := f.Take(); len(ids) != 1 {
		t.Errorf("after another change: %q", ids)
	}
	for i := range 5 {
		w.Changed(store.RunKey{Namespace: 1, ID: fmt.Sprint(i)}, false)
	}
	if ids, complete := f.Take(); len(ids) != 3 || complete {
		t.Errorf("of five, %q, %v", ids, complete)
	}
	if w.Changed(store.RunKey{Namespace: 1, ID: "z"}, false); told(f.Changed()) {
		_, complete := f.Take()
		if complete {
			t.Error("a feed that has lost runs goes on")
		}
	}
	f.Stop()
	w.ChangedAll()
	if told(f.Changed()) || !told(other.Changed()) {
		t.Error("told after its stop, or the other one is not")
	}
}
