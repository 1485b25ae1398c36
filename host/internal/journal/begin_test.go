package journal

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/wfhost/wfhost/store"
)

// TestBegin begins runs with random options: the journal equals one that was loaded from the store.
func TestBegin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(what string) string { return rapid.StringN(0, 20, 80).Draw(t, what) }
		s := Started{RunID: rapid.StringMatching(`[a-z]{1,9}`).Draw(t, "id"), Workflow: "w", Version: rapid.Uint32().Draw(t, "version"),
			Module: "ab", Incarnation: "cd", RunAttempt: 1, Seed: rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed"),
			Rules: rapid.IntRange(0, RulesNewest).Draw(t, "rules"), AtUnixMs: rapid.Int64Min(0).Draw(t, "at"),
			DeadlineUnixMs: rapid.Int64Min(0).Draw(t, "deadline"), Schedule: text("schedule"), TraceParent: text("trace")}
		if rapid.Bool().Draw(t, "attributes") {
			s.Attributes = map[string]string{"a": text("attribute")}
		}
		if rapid.Bool().Draw(t, "memo") {
			s.Memo = []byte(`{ "a": "<" }`)
		}
		if rapid.Bool().Draw(t, "bytes that are no text") {
			s.TraceParent += "\xff"
		}
		begun, err := Begin(&s, []byte("1"), 7)
		if err != nil {
			t.Fatal(err)
		}
		e := begun.Entries()[0]
		read := &Journal{}
		if _, err := read.Append(store.Entry{Kind: e.Kind, Name: e.Name, Input: e.Input, Options: e.Options}, 7); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(begun, read) {
			t.Errorf("it begins as\n%+v\nand is read as\n%+v", begun.started, read.started)
		}
	})
}
