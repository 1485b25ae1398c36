package run

import (
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// TestCancelIsToldOnce continues a cancelled run as new three times: the workflow gets the cancel in the iteration in
// which it was cancelled, or in the next one, and never again.
func TestCancelIsToldOnce(t *testing.T) {
	for _, told := range []bool{true, false} {
		j := &journal.Journal{}
		for _, e := range []store.Entry{journal.Started{RunID: "r", Workflow: "w", Seed: make([]byte, seedBytes), Policy: abi.CancelCooperative,
			Copied: 2, Taken: 1, Signalled: true}.Entry(nil),
			{Kind: store.KindActivated}, {Kind: store.KindCancel}} {
			if _, err := j.Append(e, 1000); err != nil {
				t.Fatal(err)
			}
		}
		cancels := 0
		for n := range 3 {
			next, err := (&Continue{Cancelled: n == 0 && told || n == 1 && !told}).Journal(j, int64(2000+n))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range next.Entries() {
				if e.Kind == store.KindCancel {
					cancels++
				}
			}
			if next.CancelUnixMs() == 0 {
				t.Errorf("told %v: iteration %d knows nothing of the cancel", told, n+1)
			}
			if s := next.Started(); s.Copied != 0 || s.Taken != 0 || s.Signalled {
				t.Errorf("iteration %d begins with what iteration 0 began with: %+v", n+1, s)
			}
			j = next
		}
		if want := map[bool]int{true: 0, false: 1}[told]; cancels != want {
			t.Errorf("told %v: later iterations are told %d times, and should be %d times", told, cancels, want)
		}
	}
}
