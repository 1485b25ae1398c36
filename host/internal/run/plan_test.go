package run

import (
	"errors"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// planned is the journal of a run that has made one call of each kind, some with an outcome.
func planned(t *testing.T, more ...store.Entry) *journal.Journal {
	t.Helper()
	j, err := journal.Begin(&journal.Started{RunID: "r", Workflow: "w", Rules: journal.RulesNewest, Seed: make([]byte, seedBytes)}, nil, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range append([]store.Entry{
		{Kind: store.KindActivated},
		{Kind: store.KindMarker, Name: "tax", Code: 2},
		{Kind: store.KindHook, Name: "approval", Handle: 1, Data: []byte("token")},
		{Kind: store.KindStep, Name: "reserve", Handle: 2, Target: "host/stock"},
		{Kind: store.KindStepResult, Handle: 2, Attempt: 1},
		{Kind: store.KindChild, Name: "kid", Handle: 3, Target: "kids", Data: []byte("r.kid")},
		{Kind: store.KindStep, Name: "slow", Handle: 4, Target: "host/slow"},
		{Kind: store.KindStep, Name: "once", Handle: 5, Target: "host/once", Options: []byte(`{"at_most_once":true}`)},
		{Kind: store.KindAttemptStarted, Handle: 5, Attempt: 1},
		{Kind: store.KindSleep, Name: "nap", Handle: 6, DueUnixMs: 9000, HasDue: true},
		{Kind: store.KindStep, Name: "tax", Handle: 7, Target: "host/tax"},
		{Kind: store.KindStepResult, Handle: 7, Attempt: 1},
		{Kind: store.KindEmit, Name: "progress"},
	}, more...) {
		if _, err := j.Append(e, 1000); err != nil {
			t.Fatalf("%s %q: %v", e.Kind, e.Name, err)
		}
	}
	return j
}

func namesOf(calls []Call) string {
	var list []string
	for _, c := range calls {
		list = append(list, c.Kind.String()+" "+c.Name)
	}
	return strings.Join(list, ", ")
}

// TestPlan keeps the calls before a named step, although an earlier marker has the same name.
func TestPlan(t *testing.T) {
	p, err := NewPlan(planned(t), "tax")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := namesOf(p.Kept), "version tax, hook approval, step reserve, child kid, step once, sleep nap"; got != want {
		t.Errorf("kept are %s, want %s", got, want)
	}
	if got, want := namesOf(p.Repeated), "step slow, step tax, emit progress"; got != want {
		t.Errorf("repeated are %s, want %s", got, want)
	}
	if len(p.Hooks) != 1 || p.Hooks[0].Token != "token" || p.Kept[1].Target != "token" {
		t.Errorf("hooks: %+v", p.Hooks)
	}
	if len(p.Open) != 1 || p.Open[0].ChildID != "r.kid" || p.Kept[p.Open[0].At].Name != "kid" {
		t.Errorf("open: %+v", p.Open)
	}
	for name, note := range map[string]string{"reserve": "", "once": "its attempt was in flight", "nap": "it goes on", "slow": "it had no outcome"} {
		for _, c := range append(p.Kept, p.Repeated...) {
			if c.Name == name && (!strings.Contains(c.Note, note) || note == "" && c.Note != "") {
				t.Errorf("%s: %q", name, c.Note)
			}
		}
	}
	p.Resolve(&p.Open[0], store.Entry{Kind: store.KindChildResult}, "it has completed")
	if last := p.Copy.Entries[len(p.Copy.Entries)-1]; last.Handle != 3 || p.Kept[3].Note != "it has completed" {
		t.Errorf("%+v, %q", last, p.Kept[3].Note)
	}
}

// TestPlanOfOtherCalls begins at the first call with a name that no step has, or from the beginning without a name.
func TestPlanOfOtherCalls(t *testing.T) {
	p, err := NewPlan(planned(t), "progress")
	if err != nil || namesOf(p.Repeated) != "step slow, emit progress" {
		t.Errorf("%s, %v", namesOf(p.Repeated), err)
	}
	p, err = NewPlan(planned(t), "")
	if err != nil || len(p.Kept) != 0 || len(p.Repeated) != 9 {
		t.Errorf("%s, %v", namesOf(p.Repeated), err)
	}
}

// TestPlanOfNoCall lists the existing calls in the error, the most similar name first.
func TestPlanOfNoCall(t *testing.T) {
	for name, want := range map[string]string{"reserv": `did you mean "reserve"? it has made "reserve", "kid", "slow", "once", "nap", "tax"`,
		"elsewhere": `iteration 0; it has made "reserve"`} {
		_, err := NewPlan(planned(t), name)
		if !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if Has(planned(t), "elsewhere") || !Has(planned(t), "tax") {
		t.Error("Has")
	}
	empty, err := journal.Begin(&journal.Started{RunID: "r", Workflow: "w"}, nil, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewPlan(empty, "x"); err == nil || !strings.Contains(err.Error(), "it has made none") {
		t.Error(err)
	}
}

// TestPlanNotesWhatWasUndone names the compensation beside the step.
func TestPlanNotesWhatWasUndone(t *testing.T) {
	j := planned(t, store.Entry{Kind: store.KindStep, Name: "release", Handle: 8, Target: "host/stock", Options: []byte(`{"undoes":"reserve"}`)},
		store.Entry{Kind: store.KindStepResult, Handle: 8, Attempt: 1})
	p, err := NewPlan(j, "tax")
	if err != nil || len(p.Undone) != 1 || p.Kept[2].Note != `undone by step "release"` {
		t.Errorf("%+v %+v %v", p.Undone, p.Kept, err)
	}
	p, err = NewPlan(j, "reserve")
	if err != nil || len(p.Undone) != 0 {
		t.Errorf("%+v %v", p.Undone, err)
	}
}
