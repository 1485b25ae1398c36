package retention_test

import (
	"context"
	"errors"
	"testing"

	"github.com/wfhost/wfhost/host/internal/retention"
	"github.com/wfhost/wfhost/store"
)

// TestIterationsAreReadOnceAMinute: a host sees its own changes at once, and changes by other hosts within a minute.
func TestIterationsAreReadOnceAMinute(t *testing.T) {
	var (
		set   []store.Retention
		fails error
		reads int
		now   = int64(100 * day)
	)
	i := retention.NewIterations(func(context.Context) ([]store.Retention, error) {
		reads++
		return set, fails
	}, store.Retention{KeepIterations: 10})
	keeps := func(ns store.NamespaceID, workflow string, want int64, wantReads int) {
		t.Helper()
		r, err := i.Of(ctx, ns, workflow, now)
		if err != nil {
			t.Fatal(err)
		}
		if got := int64(r.KeepIterations); got != want || reads != wantReads {
			t.Errorf("namespace %d, workflow %s: %d iterations after %d reads, want %d after %d", ns, workflow, got, reads, want, wantReads)
		}
	}
	keeps(0, "w", 10, 1)
	set = []store.Retention{
		{Workflow: "w", KeepIterations: 3},
		{Namespace: 1, KeepIterations: 5},
	}
	now += 59_999
	keeps(0, "w", 10, 1)
	now++
	keeps(0, "w", 3, 2)
	keeps(0, "other", 10, 2) // no rule names it
	keeps(1, "w", 5, 2)
	keeps(2, "w", 10, 2)
	set = nil
	i.Changed()
	keeps(0, "w", 10, 3)
	now -= 1_000 // the clock was set back
	keeps(0, "w", 10, 4)
	i.Changed()
	fails = errors.New("the disk is gone")
	if _, err := i.Of(ctx, 0, "w", now); !errors.Is(err, fails) {
		t.Errorf("retentions that cannot be read: %v", err)
	}
	fails = nil
	keeps(0, "w", 10, 6)
}
