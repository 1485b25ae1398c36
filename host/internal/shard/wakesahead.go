package shard

import (
	"context"
	"errors"

	"github.com/wfhost/wfhost/store"
)

// RunStates reads the states of runs: see store.Store.
type RunStates interface {
	State(ctx context.Context, key store.RunKey) (store.RunState, error)
}

// aheadPortion is the number of wakes per read.
const aheadPortion = 256

// FindWakesAhead calls found, in portions, with the runs that wake after unixMs and were last updated after unixMs. It
// returns when it has seen all wakes, or with the first read error. It must read the whole index after unixMs, because
// such a run may stand behind any number of other wakes.
func FindWakesAhead(ctx context.Context, in WakeIndex, states RunStates, unixMs int64, found func([]store.RunKey)) error {
	for after := (store.WakeKey{UnixMs: unixMs}); ; {
		wakes, err := in.Due(ctx, after, Never-1, aheadPortion)
		if err != nil || len(wakes) == 0 {
			return err
		}
		var keys []store.RunKey
		for _, w := range wakes {
			if w.Key.Kind != store.WakeRun {
				continue
			}
			st, err := states.State(ctx, w.Key.Key)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if err == nil && st.UpdatedUnixMs > unixMs && st.WakeUnixMs != store.NoWake {
				keys = append(keys, w.Key.Key)
			}
		}
		if len(keys) > 0 {
			found(keys)
		}
		after = wakes[len(wakes)-1].Key
	}
}
