package leap

import (
	"slices"
	"testing"

	"github.com/wfhost/wfhost/store"
)

func key(id string) store.RunKey { return store.RunKey{Namespace: 3, ID: id} }

// TestFamily moves the clock of a run, its child and that one's child, and of nobody else.
func TestFamily(t *testing.T) {
	var c Clocks
	if got := c.Now(5, key("a"), ""); got != 5 {
		t.Errorf("without a family: %d", got)
	}
	if !c.Begin(key("a")) || c.Begin(key("a")) {
		t.Error("a family begins once")
	}
	c.Now(5, key("child"), "a")
	c.Now(5, key("grandchild"), "child")
	c.Leap(key("a"), 100)
	c.Leap(key("a"), 50)
	for id, want := range map[string]int64{"a": 100, "child": 100, "grandchild": 100, "other": 5} {
		if got := c.Now(5, key(id), ""); got != want {
			t.Errorf("%s: %d, want %d", id, got, want)
		}
		if got := c.Now(200, key(id), ""); got != 200 {
			t.Errorf("%s when the host's clock is ahead: %d", id, got)
		}
	}
	if got := c.Now(5, store.RunKey{Namespace: 4, ID: "x"}, "a"); got != 5 {
		t.Errorf("a child of a run of that id in another namespace: %d", got)
	}
	if got := c.Members(key("a")); !slices.Equal(got, []store.RunKey{key("a"), key("child"), key("grandchild")}) {
		t.Error(got)
	}
	if c.Begin(key("child")) {
		t.Error("a member begins a family of its own")
	}
	c.End(key("a"))
	if got := c.Now(5, key("child"), "a"); got != 5 {
		t.Errorf("after the end: %d", got)
	}
}
