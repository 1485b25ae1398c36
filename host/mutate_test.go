package host_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// mutated is a store that gives one run with another journal.
type mutated struct {
	store.Store
	journal *atomic.Pointer[[]store.Entry]
}

// Run implements store.Store.
func (m mutated) Run(ctx context.Context, key store.RunKey) (store.RunState, []store.Entry, error) {
	st, entries, err := m.Store.Run(ctx, key)
	if other := m.journal.Load(); other != nil {
		entries = *other
	}
	return st, entries, err
}

// mutations change one field of an entry; they report false if it is not set. A text becomes one that is as long.
var mutations = map[string]func(e *store.Entry) bool{
	"kind": func(e *store.Entry) bool {
		if e.Kind == store.KindSleep {
			e.Kind = store.KindSignalWait
		} else {
			e.Kind = store.KindSleep
		}
		return true
	},
	"handle":   func(e *store.Entry) bool { e.Handle++; return e.Handle > 1 },
	"consumed": func(e *store.Entry) bool { e.Consumed++; return e.Consumed > 1 },
	"name":     func(e *store.Entry) bool { return change(&e.Name) },
	"target":   func(e *store.Entry) bool { return change(&e.Target) },
	"input":    func(e *store.Entry) bool { return changeBytes(&e.Input) },
	"options":  func(e *store.Entry) bool { return changeBytes(&e.Options) },
	"refused":  func(e *store.Entry) bool { e.Refused++; return e.Refused > 1 },
	"code":     func(e *store.Entry) bool { e.Code++; return e.Code > 1 },
	"due":      func(e *store.Entry) bool { e.DueUnixMs += 1000; return e.HasDue },
	"skipped":  func(e *store.Entry) bool { e.Skipped = !e.Skipped; return !e.Skipped },
	"ref":      func(e *store.Entry) bool { e.Ref++; return e.Ref > 1 },
}

func change(s *string) bool {
	b := []byte(*s)
	ok := changeBytes(&b)
	*s = string(b)
	return ok
}

func changeBytes(b *[]byte) bool {
	if len(*b) == 0 {
		return false
	}
	*b = slices.Clone(*b)
	(*b)[len(*b)/2] ^= 1
	return true
}

// notTheWorkflows is what the world around a workflow has decided, and not the workflow: it could have been like that.
var notTheWorkflows = []string{
	"started name", "started options", "started input", // by whoever started it; a workflow may not look at its input
	"signal_accepted name", // by whoever sent it
	"attempt_started code", // of the host's retries
	"attempt_failed due",   // likewise
	"emit code",            // the index that the host gave
	"moved target",         // the id of the move, by the host that made it
}

// TestMutatedJournals changes one field of one entry of the journals of a store with runs of all kinds, and replays them. What a
// workflow has decided cannot be changed silently.
func TestMutatedJournals(t *testing.T) {
	text, err := os.ReadFile(goldenPath(store.FormatVersion))
	do(t, err)
	dir := filepath.Join(t.TempDir(), "store")
	load(t, text, dir)
	s, err := pebblestore.Open(dir, pebblestore.Options{NoSync: true})
	do(t, err)
	journal := &atomic.Pointer[[]store.Entry]{}
	h := hosttest.New(t, hosttest.WithStore(func() store.Store { return mutated{s, journal} }))
	silent, all := map[string]int{}, 0
	const atLeast = 150 // mutations: else the store is not what it was
	for r, err := range h.Runs(ctx, host.Query{}) {
		do(t, err)
		do(t, h.Replay(ctx, r.ID))
		_, entries, err := s.Run(ctx, store.RunKey{ID: r.ID})
		do(t, err)
		for i := range entries {
			for field, mutate := range mutations {
				other := slices.Clone(entries)
				if !mutate(&other[i]) {
					continue
				}
				journal.Store(&other)
				all++
				if err := h.Replay(ctx, r.ID); err == nil {
					silent[fmt.Sprint(entries[i].Kind, " ", field)]++
				}
			}
		}
		journal.Store(nil)
	}
	for _, what := range slices.Sorted(maps.Keys(silent)) {
		if !slices.Contains(notTheWorkflows, what) {
			t.Errorf("%s was changed without a word, %d times", what, silent[what])
		}
	}
	if t.Logf("%d mutations", all); all < atLeast {
		t.Errorf("%d mutations, want %d", all, atLeast)
	}
}
