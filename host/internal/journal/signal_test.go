package journal

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// with returns a journal with the given start and entries.
func with(t *testing.T, s Started, entries ...store.Entry) *Journal {
	t.Helper()
	j := &Journal{}
	for _, e := range append([]store.Entry{s.Entry(nil), {Kind: store.KindActivated}}, entries...) {
		if _, err := j.Append(e, 1000); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

func code(err error) abi.Code {
	e, ok := errors.AsType[*abi.Error](err)
	if !ok {
		return -1
	}
	return e.Code
}

func TestSignalKeys(t *testing.T) {
	j := with(t, Started{RunID: "r", Keys: []Key{{Key: "old", Digest: digest([]byte("x"))}}},
		store.Entry{Kind: store.KindSignalAccepted, Name: "s", Data: []byte("a"), Target: "k"})
	for _, c := range []struct {
		name, key, data string
		same            bool
		code            abi.Code
	}{{"s", "", "a", false, -1}, {"s", "k", "a", true, -1}, {"s", "k", "b", false, abi.Conflict}, {"s", "old", "x", true, -1},
		{"s", "old", "y", false, abi.Conflict}, {"s", "new", "a", false, -1}, {"other", "k", "b", false, -1},
		{"other", "old", "x", true, -1}} {
		same, err := j.CheckSignal(c.name, c.key, []byte(c.data))
		if same != c.same || err == nil && c.code != -1 || err != nil && code(err) != c.code {
			t.Errorf("signal %q, key %q with %q: %v %v", c.name, c.key, c.data, same, err)
		}
	}
	if _, err := j.CheckSignal("s", "", make([]byte, abi.MaxPendingSignalBytes)); code(err) != abi.Limit {
		t.Error(err)
	}
	if keys := j.Keys(); len(keys) != 2 || keys[0].Key != "old" || keys[1].Key != "k" || keys[1].Name != "s" {
		t.Errorf("%v", keys)
	}
	var k keys
	for i := range abi.MaxSignalKeys + 2 {
		k.add(Key{Key: fmt.Sprint(i)})
	}
	if _, ok := k.find("s", "1"); ok || len(k.list) != abi.MaxSignalKeys || len(k.known) != abi.MaxSignalKeys {
		t.Error("old keys are not forgotten")
	}
	for range abi.MaxEntries {
		j.entries = append(j.entries, store.Entry{})
	}
	if _, err := j.CheckSignal("s", "", nil); code(err) != abi.Limit {
		t.Error(err)
	}
}

func TestCarriedOver(t *testing.T) {
	j := with(t, Started{RunID: "r", Policy: abi.CancelCooperative, CancelMs: 7, Output: 5, Attributes: map[string]string{"b": "1", "a": "2"}},
		store.Entry{Kind: store.KindEmit, Name: "t"}, store.Entry{Kind: store.KindAttribute, Name: "b", Input: []byte("3")})
	if j.CancelPolicy() != abi.CancelCooperative || j.CancelUnixMs() != 7 || j.Output() != 6 || j.Paused() {
		t.Errorf("%d %d %d", j.CancelPolicy(), j.CancelUnixMs(), j.Output())
	}
	if e := j.Entries()[2]; e.Code != 5 {
		t.Errorf("the first chunk of this iteration has index %d", e.Code)
	}
	if a := fmt.Sprint(j.Attributes()); a != "[{a 2} {b 3}]" {
		t.Error(a)
	}
	for i := range abi.MaxAttributes {
		j.setAttribute(fmt.Sprint(i), "")
	}
	if err := j.CheckAttribute("one more"); code(err) != abi.Limit {
		t.Error(err)
	}
	if err := j.CheckAttribute("a"); err != nil {
		t.Error(err)
	}
	if at, ok := j.StartedUnixMs(); at != 1000 || !ok {
		t.Error(at, ok)
	}
	j.Suspend(store.Suspension{Seq: 4})
	if s, ok := j.Suspension(); s.Seq != 4 || !ok {
		t.Error(s, ok)
	}
	j.Resume()
	if _, ok := j.Suspension(); ok {
		t.Error("it still waits")
	}
}

func TestChildrenAndHooks(t *testing.T) {
	child := func(name, options, id string) store.Entry {
		return store.Entry{Kind: store.KindChild, Name: name, Target: "w", Options: []byte(options), Data: []byte(id)}
	}
	entries := []store.Entry{child("a", "", ""), child("b", `{"on_end":"abandon"}`, ""), child("c", `{"on_end":"terminate"}`, "kid"),
		{Kind: store.KindHook, Name: "h"}, {Kind: store.KindHook, Name: "h", Target: "chosen-token"}, {Kind: store.KindHook, Name: "h", Target: "taken-token"}}
	for i := range entries {
		entries[i].Handle = int64(i + 1)
		if entries[i].Kind == store.KindHook {
			entries[i].Data = []byte("made-token")
			if entries[i].Target != "" {
				entries[i].Data = []byte(entries[i].Target)
			}
		}
	}
	j := with(t, Started{RunID: "r", Iteration: 2}, entries...)
	kids := j.OpenChildren()
	if len(kids) != 2 || kids[0].ChildID != "r.2.2" || kids[1].ChildID != "kid" || kids[1].OnEnd != abi.OnEndTerminate {
		t.Fatalf("%+v", kids)
	}
	if j.Hook("made-token") == nil || j.Hook("chosen-token") != nil || len(j.Hooks()) != 2 {
		t.Fatal("a token that is claimed is held before it was given")
	}
	for h, c := range map[int64]int32{5: 0, 6: int32(abi.Conflict)} {
		if _, err := j.Append(store.Entry{Kind: store.KindHookReady, Handle: h, Code: c}, 1000); err != nil {
			t.Fatal(err)
		}
	}
	if j.Hook("chosen-token") == nil || j.Hook("taken-token") != nil || j.Hook("") != nil {
		t.Fatal("tokens after the claims")
	}
	if _, err := j.Append(store.Entry{Kind: store.KindCompleted}, 1000); err != nil {
		t.Fatal(err)
	}
	if j.Hook("made-token") != nil {
		t.Fatal("a token outlives its run")
	}
	long := with(t, Started{RunID: strings.Repeat("x", abi.MaxRunIDBytes)}, store.Entry{Kind: store.KindChild, Handle: 1, Name: "a", Target: "w"})
	if id := long.Handle(1).ChildID; abi.CheckRunID(id) != nil || !strings.HasSuffix(id, ".2") {
		t.Fatal(id)
	}
	bad := begun(t)
	if _, err := bad.Append(store.Entry{Kind: store.KindChild, Handle: 1, Name: "a", Options: []byte("{")}, 1000); !errors.Is(err, ErrIllegal) {
		t.Fatal(err)
	}
}

func TestTakes(t *testing.T) {
	j := with(t, Started{RunID: "r"}, store.Entry{Kind: store.KindCancelPolicy, Code: abi.CancelCooperative},
		store.Entry{Kind: store.KindSleep, Handle: 1, Name: "a", DueUnixMs: 5000, HasDue: true},
		store.Entry{Kind: store.KindSleep, Handle: 2, Name: "b", DueUnixMs: 9000, HasDue: true})
	for want, s := range map[string]store.Suspension{
		"false false true": {Seq: 5, Awaited: []int64{2}}, "false true true": {Seq: 5}, "false true true again": {Seq: 5, Poll: true, Events: true},
		"false false false": {Seq: 5, Poll: true},
	} {
		c := &Journal{}
		for _, e := range j.All() {
			if err := c.Load(e); err != nil {
				t.Fatal(err)
			}
		}
		c.Suspend(s)
		got := fmt.Sprint(c.Deliverable())
		if err := c.FireDue(5000); err != nil {
			t.Fatal(err)
		}
		got += fmt.Sprint(" ", c.Deliverable())
		if _, err := c.Append(store.Entry{Kind: store.KindCancel}, 5000); err != nil {
			t.Fatal(err)
		}
		got += fmt.Sprint(" ", c.Deliverable())
		if got != strings.TrimSuffix(want, " again") {
			t.Errorf("%+v: %s, want %s", s, got, want)
		}
	}
}
