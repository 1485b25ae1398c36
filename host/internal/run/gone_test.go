package run

import (
	"errors"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// TestStartOfRunThatIsGone creates no run for an unchecked start, which was meant for a run that no longer exists.
func TestStartOfRunThatIsGone(t *testing.T) {
	for _, r := range []*Record{{}, {Tombstone: &store.RunState{Deleted: true}}} {
		if err := r.Refuses(&NewRun{Existing: true}, store.DefaultIDsMs); !errors.Is(err, ErrNoRun) {
			t.Error(err)
		}
		if err := r.Refuses(&NewRun{}, store.DefaultIDsMs); err != nil {
			t.Error(err)
		}
	}
}
