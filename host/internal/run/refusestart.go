package run

import (
	"fmt"

	"github.com/wfhost/wfhost/store"
)

// Refuses returns why the run or tombstone that has the id refuses a start, or nil if the start is accepted.
func (r *Record) Refuses(n *NewRun, now int64) error {
	if n.Import != nil {
		return r.importOf(n, now)
	}
	why := ""
	switch {
	case r.Tombstone != nil:
		again := n.Conflict > ConflictFail && n.Conflict != ConflictMove
		if again || Forgotten(r.Tombstone, n, now) {
			if n.Existing {
				return ErrNoRun
			}
			return nil
		}
		why = ": it was deleted, and " + freeAgain(n)
	case !r.Exists && n.Existing:
		return ErrNoRun
	case !r.Exists || n.Conflict == ConflictTerminate:
		return nil
	case n.Conflict == ConflictFail:
	case n.Conflict == ConflictMove:
		if !r.Ended() && r.Journal.Len() == 1 && now < r.StartsAt() && r.State.Workflow == n.Workflow {
			return nil
		}
		why = " and has begun"
	case n.Conflict == ConflictReplace:
		if r.Ended() {
			return nil
		}
		why = " and has not ended"
	default:
		if r.State.Workflow == n.Workflow &&
			(r.State.InputDigest == n.InputDigest || IsInputDigest(r.State.InputDigest, n.Input)) {
			return nil
		}
		why = " with another workflow or input"
	}
	return fmt.Errorf("run %q: %w%s", n.Key.ID, store.ErrExists, why)
}
