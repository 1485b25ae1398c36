package host_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
)

// TestStopIsNoFailure closes the host while many handlers run, which return an error as soon as they are cancelled.
// None of these errors is recorded as an outcome, however slowly the host closes, and each attempt is repeated.
func TestStopIsNoFailure(t *testing.T) {
	const runs = 60
	procs := runtime.GOMAXPROCS(8) // so that handlers are faster than the shards, which are closed one after the other
	t.Cleanup(func() { runtime.GOMAXPROCS(procs) })
	begun, stops := make(chan string, 3*runs), false
	p := newPrims(t, hosttest.WithHandlers(func(h *host.Host) {
		again := stops
		host.HandleStep(h, "flaky", func(ctx context.Context, text string) (string, error) {
			begun <- text
			if again {
				return text, nil
			}
			<-ctx.Done()
			return "", ctx.Err()
		})
	}))
	for i := range runs {
		if _, err := p.Start(ctx, "retryable", 0, host.WithRunID(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	for range runs {
		<-begun
	}
	stops = true
	p.Reopen()
	p.Settle()
	if len(begun) != runs {
		t.Errorf("%d of %d attempts are made again at once", len(begun), runs)
	}
	for i := range runs {
		for e, err := range p.Journal(ctx, fmt.Sprint(i), 0) {
			if err != nil || e.Kind == store.KindAttemptFailed || e.Kind == store.KindStepFailure {
				t.Fatalf("run %d: %+v %v", i, e, err)
			}
		}
		want(t, p.status(fmt.Sprint(i)), host.Completed)
	}
}
