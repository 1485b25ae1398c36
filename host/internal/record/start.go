package record

import (
	"fmt"

	"github.com/wfhost/wfhost/host/internal/origin"
	"github.com/wfhost/wfhost/store"
)

// IDRetentionMs is how long the id of a deleted run stays taken: a start that is repeated by mistake comes earlier.
const IDRetentionMs = 30 * 24 * 3600 * 1000

// Refuses returns why a start is refused by what is there of its id, nil if it is not.
func (r *Record) Refuses(n *origin.NewRun, now int64) error {
	why := ""
	switch {
	case r.Tombstone != nil:
		if n.Conflict > origin.ConflictFail || now-r.Tombstone.UpdatedUnixMs >= IDRetentionMs {
			return nil
		}
		why = ": it was deleted, and its id is free again after 30 days"
	case !r.Exists || n.Conflict == origin.ConflictTerminate:
		return nil
	case n.Conflict == origin.ConflictFail:
	case n.Conflict == origin.ConflictReplace:
		if r.Ended() {
			return nil
		}
		why = " and has not ended"
	default:
		if r.State.Workflow == n.Workflow &&
			(r.State.InputDigest == n.InputDigest || r.State.InputDigest == origin.WrittenDigest(n.Input)) {
			return nil
		}
		why = " with another workflow or input"
	}
	return fmt.Errorf("run %q: %w%s", n.Key.ID, store.ErrExists, why)
}
