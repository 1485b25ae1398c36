package storetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// dice generates the same pseudo-random numbers every time: a linear congruential generator.
type dice uint64

func (d *dice) below(n int64) int64 {
	*d = *d*6364136223846793005 + 1442695040888963407
	return int64(uint64(*d)>>33) % n
}

// testWakes has runs sleep and wake at random while time passes, some of them until an instant long past, and reads
// wakes as a host does, further and further ahead. However a store finds the first wake: all wakes are listed once,
// and consumed ones are not, also after a restart.
func testWakes(_ *testing.T, e *env) {
	rng := dice(1)
	var ids []string
	for i := 0; len(ids) < 12; i++ {
		if id := fmt.Sprint("w", i); key(id).Partition() == key("a").Partition() {
			ids = append(ids, id)
		}
	}
	wakes, now := map[string]int64{}, int64(1_000_000)
	for range 400 {
		now += rng.below(30_000)
		id := ids[rng.below(int64(len(ids)))]
		_, known := wakes[id]
		st := state(id)
		c := store.RunCommit{Run: st.Run, Create: !known}
		switch st.WakeUnixMs = now + rng.below(200_000); rng.below(8) {
		case 0:
			st.WakeUnixMs = rng.below(now)
		case 1:
			st.WakeUnixMs = store.NoWake
		case 2:
			c.Delete = known
		}
		c.State, wakes[id] = st, st.WakeUnixMs
		if c.Delete {
			delete(wakes, id)
		}
		p := e.partition(st.Run.Partition())
		e.ok(p.Commit(context.Background(), []store.RunCommit{c}))
		_, err := p.Due(context.Background(), store.WakeKey{UnixMs: now, Key: st.Run}, now+100_000, 3)
		e.ok(err)
		if rng.below(40) == 0 {
			e.reopen()
		}
		e.wakes(wakes)
	}
}

// wakes compares everything that is listed, in portions.
func (e *env) wakes(want map[string]int64) {
	e.t.Helper()
	var keys []store.WakeKey
	for id, at := range want {
		if at != store.NoWake {
			keys = append(keys, store.WakeKey{UnixMs: at, Key: key(id)})
		}
	}
	slices.SortFunc(keys, store.WakeKey.Compare)
	var got []store.WakeKey
	for after := (store.WakeKey{}); ; {
		list, err := e.partition(key("a").Partition()).Due(context.Background(), after, math.MaxInt64-1, 5)
		e.ok(err)
		for _, w := range list {
			if w.DueUnixMs != w.Key.UnixMs {
				e.t.Fatalf("wake of %s at %d is due at %d", w.Key.Key.ID, w.Key.UnixMs, w.DueUnixMs)
			}
			got, after = append(got, w.Key), w.Key
		}
		if len(list) == 0 {
			break
		}
	}
	if !slices.Equal(got, keys) {
		e.t.Fatalf("wakes %v, want %v", got, keys)
	}
}
