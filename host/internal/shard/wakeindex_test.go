package shard

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// index is a wake index in memory, in order. After failAfter reads it fails.
type index struct {
	wakes     []store.Wake
	failAfter int
}

var errIndex = errors.New("the disk is away")

func (x *index) Due(_ context.Context, after store.WakeKey, untilUnixMs int64, limit int) ([]store.Wake, error) {
	x.failAfter--
	if x.failAfter < 0 {
		return nil, errIndex
	}
	var due []store.Wake
	for _, w := range x.wakes {
		if w.Key.Compare(after) > 0 && w.Key.UnixMs <= untilUnixMs && len(due) < limit {
			due = append(due, w)
		}
	}
	return due, nil
}

// A portion ends at its limit or its instant, and reports the first wake behind it.
func TestFind(t *testing.T) {
	all := []store.Wake{indexed("a", 10), indexed("b", 20), indexed("c", 20), indexed("d", 500)}
	for _, c := range []struct {
		name  string
		after store.WakeKey
		until int64
		limit int
		want  []store.Wake
		more  bool
		first int64
	}{
		{"a full portion", store.WakeKey{}, 100, 2, all[:2], true, 20},
		{"the rest of it", all[1].Key, 100, 2, all[2:3], false, 500},
		{"just as many as the limit", store.WakeKey{}, 100, 3, all[:3], false, 500},
		{"nothing before the instant", all[2].Key, 100, 2, nil, false, 500},
		{"the end of the index", all[2].Key, 500, 2, all[3:], false, Never},
		{"nothing at all", all[3].Key, 1000, 2, nil, false, Never},
	} {
		wakes, more, first, err := FindWakes(t.Context(), &index{all, 2}, c.after, c.until, c.limit)
		if !slices.Equal(wakes, c.want) || more != c.more || first != c.first || err != nil {
			t.Errorf("%s: %v %v %d %v, want %v %v %d", c.name, wakes, more, first, err, c.want, c.more, c.first)
		}
	}
	for reads := range 2 {
		if _, _, _, err := FindWakes(t.Context(), &index{all, reads}, store.WakeKey{}, 100, 5); !errors.Is(err, errIndex) {
			t.Errorf("an index that fails after %d reads: %v", reads, err)
		}
	}
}
