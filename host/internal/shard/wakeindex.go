package shard

import (
	"context"

	"github.com/wfhost/wfhost/store"
)

// WakeIndex reads the wake index: see store.Partition.
type WakeIndex interface {
	Due(ctx context.Context, after store.WakeKey, untilUnixMs int64, limit int) ([]store.Wake, error)
}

// FindWakes reads a portion for wakeTimers.Loaded: at most limit wakes after a key and up to untilUnixMs. more reports
// whether the portion has more wakes. first is the instant of the next wake in the index, Never if there is none.
func FindWakes(ctx context.Context, in WakeIndex, after store.WakeKey, untilUnixMs int64,
	limit int) (wakes []store.Wake, more bool, first int64, err error) {
	wakes, err = in.Due(ctx, after, untilUnixMs, limit+1)
	if err != nil {
		return nil, false, 0, err
	}
	if len(wakes) > limit {
		return wakes[:limit], true, wakes[limit].Key.UnixMs, nil
	}
	if n := len(wakes); n > 0 {
		after = wakes[n-1].Key
	}
	next, err := in.Due(ctx, after, Never-1, 1)
	if err != nil || len(next) == 0 {
		return wakes, false, Never, err
	}
	return wakes, false, next[0].Key.UnixMs, nil
}
