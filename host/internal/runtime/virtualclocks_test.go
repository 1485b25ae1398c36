package runtime

import (
	"slices"
	"testing"

	"github.com/wfhost/wfhost/store"
)

func key(id string) store.RunKey { return store.RunKey{Namespace: 3, ID: id} }

// now returns the virtual clock of an incarnation of a run.
func now(c *virtualClocks, at int64, run store.RunKey, parent string) int64 {
	return c.Now(at, run, store.RunKey{Namespace: run.Namespace, ID: parent}, inc(run.ID), inc(parent))
}

// inc returns the incarnation of the run with an id.
func inc(id string) (i store.Incarnation) {
	copy(i[:], id)
	return i
}

// TestTakenIDs lets other runs take over the ids of members: they do not belong to the family, and neither does a
// child of the previous run.
func TestTakenIDs(t *testing.T) {
	var c virtualClocks
	c.Begin(key("a"), inc("a"))
	now(&c, 5, key("child"), "a")
	c.Leap(key("a"), 100)
	other := inc("later")
	if got := c.Now(5, key("child"), store.RunKey{}, other, store.Incarnation{}); got != 5 {
		t.Errorf("a run that has taken the id of a child: %d", got)
	}
	if got := c.Now(5, key("old"), key("a"), inc("old"), inc("before")); got != 5 {
		t.Errorf("a child of the run before: %d", got)
	}
	if got := now(&c, 5, key("new"), "a"); got != 100 {
		t.Errorf("a child: %d", got)
	}
	if got := c.Now(5, key("a"), store.RunKey{}, other, store.Incarnation{}); got != 5 {
		t.Errorf("a run that has taken the id of the root: %d", got)
	}
	if got := c.Members(key("a")); !slices.Equal(got, []store.RunKey{key("new")}) {
		t.Error(got)
	}
}

// TestFamily moves the clock of a run, its child and its grandchild, and of no other run.
func TestFamily(t *testing.T) {
	var c virtualClocks
	if got := now(&c, 5, key("a"), ""); got != 5 {
		t.Errorf("without a family: %d", got)
	}
	if !c.Begin(key("a"), inc("a")) || c.Begin(key("a"), inc("a")) {
		t.Error("a family begins once")
	}
	now(&c, 5, key("child"), "a")
	now(&c, 5, key("grandchild"), "child")
	c.Leap(key("a"), 100)
	c.Leap(key("a"), 50)
	for id, want := range map[string]int64{"a": 100, "child": 100, "grandchild": 100, "other": 5} {
		if got := now(&c, 5, key(id), ""); got != want {
			t.Errorf("%s: %d, want %d", id, got, want)
		}
		if got := now(&c, 200, key(id), ""); got != 200 {
			t.Errorf("%s when the host's clock is ahead: %d", id, got)
		}
	}
	if got := now(&c, 5, store.RunKey{Namespace: 4, ID: "x"}, "a"); got != 5 {
		t.Errorf("a child of a run of that id in another namespace: %d", got)
	}
	if got := c.Members(key("a")); !slices.Equal(got, []store.RunKey{key("a"), key("child"), key("grandchild")}) {
		t.Error(got)
	}
	if c.Begin(key("child"), inc("child")) {
		t.Error("a member begins a family of its own")
	}
	c.End(key("a"))
	if got := now(&c, 5, key("child"), "a"); got != 5 {
		t.Errorf("after the end: %d", got)
	}
}
