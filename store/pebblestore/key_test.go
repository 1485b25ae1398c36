package pebblestore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// sealedBy is a sealed record.
func sealedBy(key string, payload string) []byte {
	return append(append([]byte{byte(len(key))}, key...), payload...)
}

// newSealed makes a store with a command and one run, with all records sealed by one key.
func newSealed(t *testing.T, key string) *checked {
	t.Helper()
	c := newChecked(t)
	c.do(c.s.AddSealKey(t.Context(), store.SealKey{ID: "k1", Check: []byte("x"), CreatedUnixMs: 9}))
	c.do(c.s.AddSealKey(t.Context(), store.SealKey{ID: "k2", Check: []byte("x")}))
	run := store.RunKey{ID: "sealed"}
	p, err := c.s.Acquire(t.Context(), run.Partition(), "a", 0)
	c.do(err)
	small, large := sealedBy(key, "x"), sealedBy(key, strings.Repeat("x", abi.BlobBytes))
	c.do(p.Commit(t.Context(), []store.RunCommit{{Run: run, Create: true, State: store.RunState{Run: run, Workflow: "w", Version: 1,
		Status: store.Waiting, WakeUnixMs: store.NoWake, LogRecords: 1, Output: 1, Reason: string(small), Sealed: true},
		Append: []store.Entry{{Kind: store.KindStarted, Data: small, Sealed: true}, {Seq: 1, Kind: store.KindEmit, Data: large, Sealed: true}},
		Logs:   []store.LogLine{{Text: string(small), Sealed: true}}, Output: []store.Chunk{{Data: small, Sealed: true}},
		Outbox: []store.Command{{ID: store.CommandID{Seq: 5}, Kind: store.CommandSignal, To: run, Data: small, Sealed: true}}}}))
	c.do(c.s.Close())
	c.s = nil
	return c
}

// TestCountKeys counts records by key, and forgets a key without records.
func TestCountKeys(t *testing.T) {
	c := newSealed(t, "k1")
	list, err := CountKeys(t.Context(), c.dir)
	c.do(err)
	if len(list) != 3 || list[0].Key != "" || list[0].Records == 0 || list[1] != (KeyUse{"k1", 6, 9}) || list[2] != (KeyUse{"k2", 0, 0}) {
		t.Errorf("%+v", list)
	}
	if used, err := ForgetKey(t.Context(), c.dir, "k1"); used != 6 || err != nil {
		t.Errorf("forgetting a key of 6 records: %d, %v", used, err)
	}
	for range 2 { // what was forgotten is not known
		used, err := ForgetKey(t.Context(), c.dir, "k2")
		if used != 0 || err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("forgetting a key without records: %d, %v", used, err)
		}
	}
	list, err = CountKeys(t.Context(), c.dir)
	if err != nil || len(list) != 2 || list[1].Key != "k1" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := ForgetKey(t.Context(), c.dir, ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("forgetting a key without an id: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := CountKeys(ctx, t.TempDir()); err == nil {
		t.Error("a folder without a store has keys")
	}
}

// TestCheckOfSealedRecords finds records sealed with an unknown key.
func TestCheckOfSealedRecords(t *testing.T) {
	if r := newSealed(t, "k1").check(false); len(r.Problems) > 0 || r.Runs != 40 {
		t.Errorf("%+v", r.Problems)
	}
	for key, want := range map[string]string{"k3": `with the key "k3", which is not among`, "": "has no id of a key"} {
		kinds := map[string]bool{}
		for _, p := range newSealed(t, key).check(false).Problems {
			if p.Kind != "seal" || p.Run != "sealed" || !strings.Contains(p.Text, want) {
				t.Errorf("%q: %+v", key, p)
			}
			what, _, _ := strings.Cut(p.Text, " has a record")
			what, _, _ = strings.Cut(what, ":")
			kinds[what] = true
		}
		for _, what := range []string{"its state", "its journal", "its log", "its output", "a command for it"} {
			if !kinds[what] {
				t.Errorf("%q: nothing is found in %s: %v", key, what, kinds)
			}
		}
	}
}
