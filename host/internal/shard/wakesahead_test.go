package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// states has the states of runs by id. A missing run was deleted.
type states map[string]store.RunState

func (s states) State(_ context.Context, key store.RunKey) (store.RunState, error) {
	switch st, ok := s[key.ID]; {
	case key.ID == "away":
		return store.RunState{}, errIndex
	case !ok:
		return store.RunState{}, store.ErrNotFound
	default:
		return st, nil
	}
}

// TestFindAhead finds the runs that wake after an instant and were changed after it.
func TestFindAhead(t *testing.T) {
	const now = 1000
	ahead := store.RunState{UpdatedUnixMs: now + 5, WakeUnixMs: now + 10}
	before := store.RunState{UpdatedUnixMs: now - 5, WakeUnixMs: now + 10}
	st := states{"due": ahead, "a": ahead, "before": before,
		"gone-to-sleep": {UpdatedUnixMs: now + 5, WakeUnixMs: store.NoWake}, "z": ahead}
	other := store.Wake{Key: store.WakeKey{UnixMs: now + 2, Kind: store.WakeRun + 1, Key: store.RunKey{ID: "a"}}}
	some := []store.Wake{indexed("due", now-1), indexed("a", now+1), other, indexed("before", now+3), indexed("deleted", now+4),
		indexed("gone-to-sleep", now+5)}
	var many []store.Wake
	for i := range aheadPortion {
		id := fmt.Sprint("n", i)
		st[id] = before
		many = append(many, indexed(id, now+1))
	}
	slices.SortFunc(many, func(a, b store.Wake) int { return a.Key.Compare(b.Key) })
	for _, c := range []struct {
		name  string
		in    index
		found []string
		err   error
	}{
		{"some", index{some, 9}, []string{"a"}, nil},
		{"none", index{nil, 9}, nil, nil},
		{"all are looked at", index{append(slices.Clone(many), indexed("z", now+9)), 9}, []string{"z"}, nil},
		{"the second portion cannot be read", index{append(slices.Clone(many), indexed("z", now+9)), 1}, nil, errIndex},
		{"a state cannot be read", index{[]store.Wake{indexed("away", now+1)}, 9}, nil, errIndex},
	} {
		var found []string
		err := FindWakesAhead(t.Context(), &c.in, st, now, func(keys []store.RunKey) {
			for _, k := range keys {
				found = append(found, k.ID)
			}
		})
		if !errors.Is(err, c.err) || !slices.Equal(found, c.found) {
			t.Errorf("%s: %v %v, want %v %v", c.name, found, err, c.found, c.err)
		}
	}
}
