package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// smallStore is a store that cannot store a step with a certain name, as if its entry were too large.
type smallStore struct {
	store.Store
	refuses string
}

// Commit refuses the commit with that step.
func (s *smallStore) Commit(ctx context.Context, groups []store.Group) error {
	for g := range groups {
		for i := range groups[g].Runs {
			for _, e := range groups[g].Runs[i].Append {
				if s.refuses != "" && e.Kind == store.KindStep && e.Name == s.refuses {
					return &store.RefusedError{Group: g, Run: i, Err: fmt.Errorf("%w: entry of 9000000 bytes", store.ErrTooLarge)}
				}
			}
		}
	}
	return s.Store.Commit(ctx, groups)
}

// TestWhatCannotBeStored: a run whose next commit no store accepts becomes stuck, with the reason in its status.
// Nothing acknowledged is lost, across crashes, and a retry continues the run once the cause is gone.
func TestWhatCannotBeStored(t *testing.T) {
	data, s := memstore.New(), &smallStore{refuses: "large"}
	g := newRestarts(t, hosttest.WithStore(func() store.Store {
		s.Store = data.Open()
		return s
	}))
	g.begin("r", doing{Do: "call", Name: "small"}, doing{Do: "signal", Name: "go", MS: 3_600_000}, doing{Do: "call", Name: "large"},
		doing{Do: "signal", Name: "more", MS: 1000})
	do(t, g.Signal(ctx, "r", "go", "on"))
	g.Settle()
	stuck := func() {
		t.Helper()
		g.Settle()
		r, err := g.Get(ctx, "r")
		if err != nil || r.Status != host.Stuck || !strings.Contains(r.Reason, "what it did next cannot be stored: record is too large: entry of 9000000 bytes") {
			t.Errorf("%s %q %v", r.Status, r.Reason, err)
		}
	}
	stuck()
	counts, err := g.Counts(ctx, "program")
	do(t, err)
	want(t, counts[host.Stuck], int64(1))
	do(t, g.Signal(ctx, "r", "more", "kept"))
	g.Crash()
	stuck()
	do(t, g.Retry(ctx, "r", 0))
	stuck()
	s.refuses = ""
	do(t, g.Retry(ctx, "r", 0))
	want(t, g.ends("r"), "small=small go=on large=large more=kept")
	want(t, fmt.Sprint(g.of("r")), "[small large]")
}

// TestManyLongKeys continues a run as new that has accepted thousands of signals with long idempotency keys. The
// newest keys are remembered, all signals are carried over, and the log says what was forgotten.
func TestManyLongKeys(t *testing.T) {
	g := newRestarts(t)
	g.begin("r", doing{Do: "signal", Name: "go", MS: 3_600_000}, doing{Do: "continue"}, doing{Do: "signal", Name: "last", MS: 1000})
	quotes := strings.Repeat(`"`, 240)
	const n = 4900
	key := func(i int) host.SignalOption { return host.WithIdempotencyKey(fmt.Sprintf("%s%06d", quotes, i)) }
	for i := range n {
		do(t, g.Signal(ctx, "r", quotes, i, key(i)))
	}
	do(t, g.Signal(ctx, "r", "last", "x"))
	do(t, g.Signal(ctx, "r", "go", "on"))
	want(t, g.ends("r"), "last=x")
	r, err := g.Get(ctx, "r")
	do(t, err)
	want(t, r.Iteration, uint32(1))
	do(t, g.Signal(ctx, "r", quotes, n-1, key(n-1))) // the key is known, and the run has ended
	if err := g.Signal(ctx, "r", quotes, 0, key(0)); !errors.Is(err, host.ErrTerminal) {
		t.Error("the oldest key is known:", err)
	}
	said := ""
	logs, err := g.Logs(ctx, "r", 0, 100)
	do(t, err)
	for _, l := range logs {
		said += l.Text
	}
	if !strings.Contains(said, "idempotency keys of signals are forgotten") {
		t.Errorf("the log says %q", said)
	}
}
