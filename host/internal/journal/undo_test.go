package journal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// told is a journal described in words: "reserve" is a step that succeeds, "ship!" one that fails, "?ask" one that
// stays open, "release<reserve" one that undoes another, "(kid)" a child, "~nap" a finished sleep; END and FAILED end
// the run, the latter by the failure of ship; CANCEL cancels it.
func told(t *testing.T, text string) *Journal {
	t.Helper()
	j := begun(t)
	add := func(e store.Entry) {
		t.Helper()
		if _, err := j.Append(e, 1000); err != nil {
			t.Fatalf("%s: %s %q: %v", text, e.Kind, e.Name, err)
		}
	}
	handle := int64(0)
	for _, word := range strings.Fields(text) {
		switch word {
		case "END":
			add(store.Entry{Kind: store.KindCompleted})
			continue
		case "FAILED":
			add(store.Entry{Kind: store.KindFailed, Data: []byte(`{"code":"STEP_FAILED","name":"ship","message":"x"}`)})
			continue
		case "CANCEL":
			add(store.Entry{Kind: store.KindCancelPolicy, Code: 1})
			add(store.Entry{Kind: store.KindCancel})
			continue
		}
		handle++
		word, of, undoes := strings.Cut(word, "<")
		name := strings.Trim(word, "!?()~")
		e, done := store.Entry{Kind: store.KindStep, Name: name, Handle: handle, Target: "host/x"}, store.KindStepResult
		switch {
		case strings.HasPrefix(word, "~"):
			e, done = store.Entry{Kind: store.KindSleep, Name: name, Handle: handle, DueUnixMs: 1000, HasDue: true}, store.KindTimer
		case strings.HasPrefix(word, "("):
			e.Kind, e.Target, e.Data, done = store.KindChild, "kid", []byte("r."+name), store.KindChildResult
		case strings.HasSuffix(word, "!"):
			done = store.KindStepFailure
		}
		if undoes {
			e.Options = fmt.Appendf(nil, `{"undoes":%q}`, of)
		}
		add(e)
		if strings.HasPrefix(word, "?") || e.Kind == store.KindSleep { // a due timer is appended by the next event
			continue
		}
		failure := []byte(nil)
		if done == store.KindStepFailure {
			failure = []byte(`{"code":"STEP_FAILED","message":"no"}`)
		}
		add(store.Entry{Kind: done, Handle: handle, Attempt: 1, Data: failure})
	}
	return j
}

// TestUndoneBefore returns what a restart from a call would keep although it was undone later.
func TestUndoneBefore(t *testing.T) {
	for _, c := range []struct{ journal, from, want string }{
		{"reserve charge ship END", "ship", ""},
		{"reserve charge ship! release<reserve FAILED", "ship", `reserve by step "release"`},
		{"reserve charge ship! release<reserve FAILED", "charge", `reserve by step "release"`},
		{"reserve charge ship! release<reserve FAILED", "reserve", ""}, // it is made again
		{"a b ship! undo-b<b undo-a<a FAILED", "ship", `a by step "undo-a", b by step "undo-b"`},
		{"a b ship! undo-b<b undo-a<a FAILED", "b", `a by step "undo-a"`},
		{"a b ship! undo-b<b undo-a<a FAILED", "undo-b", ""},  // whoever repeats a compensation knows
		{"reserve ship! release!<reserve FAILED", "ship", ""}, // it did not undo anything
		{"reserve! ship! release<reserve FAILED", "ship", ""}, // there was nothing to undo
		{"(kid) ship! undo<kid FAILED", "ship", `kid by step "undo"`},
		{"reserve ship! (undo)<reserve FAILED", "ship", `reserve by child "undo"`},
		{"a ship! x<* FAILED", "ship", ` by step "x"`},         // of something that has no name
		{"a ship! x<elsewhere FAILED", "ship", ` by step "x"`}, // of something that a step did under another name
		{"~nap ship! x<* FAILED", "ship", ""},                  // a sleep is nothing to undo
		{"a ship! mail FAILED", "ship", ` by step "mail"`},     // nobody says what it does
		{"a ship! FAILED", "ship", ""},
		{"a ship! mail!  FAILED", "ship", ""},
		{"a ship! mail END", "ship", ""}, // it has gone on, and well
		{"a ?ship CANCEL mail", "ship", ""},
	} {
		j := told(t, c.journal)
		cut := store.Seq(0)
		for _, e := range j.Entries() {
			if e.Name == c.from {
				cut = e.Seq
				break
			}
		}
		var got []string
		for _, u := range j.UndoneBefore(cut) {
			got = append(got, u.Name+" by "+u.By)
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s, from %s: %q, want %q", c.journal, c.from, text, c.want)
		}
	}
}
