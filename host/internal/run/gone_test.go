package run

import (
	"errors"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// TestStartOfRunThatIsGone makes no run of a start that nobody has checked, as it was for a run that is not there any more.
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
