package host

import (
	"errors"
	"fmt"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// TestReasons distinguishes errors of a single run from errors that end a migration.
func TestReasons(t *testing.T) {
	for _, own := range []error{run.ErrTerminal, run.ErrIllegal, store.ErrFenced, store.ErrCorrupt, abi.Errorf(abi.Limit, "full")} {
		c := RunCheck{Outcome: CheckCompatible}
		if err := asReason(&c, fmt.Errorf("run: %w", own)); err != nil || c.Outcome != CheckNotChecked || c.Reason == "" {
			t.Errorf("%v: %+v, %v", own, c, err)
		}
	}
	for _, all := range []error{ErrClosed, store.ErrFailed, errors.New("anything")} {
		c := RunCheck{Outcome: CheckCompatible}
		if err := asReason(&c, all); !errors.Is(err, all) || c.Reason != "" {
			t.Errorf("%v: %+v, %v", all, c, err)
		}
	}
}
