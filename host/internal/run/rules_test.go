package run

import (
	"errors"
	"testing"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// TestRulesStayWithARun: new runs and restarts from the beginning have the newest rules. The next iteration, and a
// restart with a part of the journal, keep the original's.
func TestRulesStayWithARun(t *testing.T) {
	old := &journal.Journal{}
	for _, e := range []store.Entry{
		journal.Started{RunID: "r", Workflow: "w", Seed: make([]byte, seedBytes)}.Entry(nil),
		{Kind: store.KindActivated},
		{Kind: store.KindEmit, Name: "a"},
		{Kind: store.KindEmit, Name: "b"},
	} {
		if _, err := old.Append(e, 1000); err != nil {
			t.Fatal(err)
		}
	}
	begun := func(c *Copy) *journal.Journal {
		j, err := (&NewRun{Workflow: "w", Seed: make([]byte, seedBytes), Copy: c}).Journal(2000, false)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	next, err := (&Continue{}).Journal(old, 2000)
	if err != nil {
		t.Fatal(err)
	}
	part, err := NewPlan(old, "b")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := NewPlan(old, "")
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		j    *journal.Journal
		want int
	}{
		"a new run":                      {begun(nil), journal.RulesNewest},
		"the next iteration":             {next, 0},
		"a restart with part of journal": {begun(part.Copy), 0},
		"a restart from the beginning":   {begun(whole.Copy), journal.RulesNewest},
	} {
		if got := c.j.Started().Rules; got != c.want {
			t.Errorf("%s: rules %d, want %d", what, got, c.want)
		}
	}
	newer := journal.Started{RunID: "r", Workflow: "w", Rules: journal.RulesNewest + 1}.Entry(nil)
	if _, err := (&journal.Journal{}).Append(newer, 1000); !errors.Is(err, store.ErrVersion) {
		t.Errorf("a run under rules that are not known: %v", err)
	}
}
