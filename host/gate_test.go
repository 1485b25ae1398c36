package host_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestPauseWhileAStepRuns pauses a run whose instance lingers beside a running attempt: the attempt finishes and is
// journaled, and nothing goes on before unpause.
func TestPauseWhileAStepRuns(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	p := newPrims(t, hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "book", func(_ context.Context, in struct{ What string }) (string, error) {
			if in.What == "flight" {
				close(entered)
				<-leave
			}
			return in.What, nil
		})
	}))
	r, err := p.Start(ctx, "saga", false)
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	if changed, err := p.Pause(ctx, r.ID); err != nil || !changed {
		t.Fatal(changed, err)
	}
	close(leave)
	p.Settle()
	want(t, p.status(r.ID), host.Paused)
	var kinds []string
	for e, err := range p.Journal(ctx, r.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, e.Kind.String())
	}
	want(t, fmt.Sprint(kinds), "[started activated step paused step_result]")
	p.Crash()
	if _, err := p.Unpause(ctx, r.ID); err != nil {
		t.Fatal(err)
	}
	want(t, result[string](p, r.ID), "booked")
}

// TestCancelWhileAStepRuns has a workflow that takes a cancel told while an attempt runs.
func TestCancelWhileAStepRuns(t *testing.T) {
	entered := make(chan struct{})
	told := make(chan struct{})
	p := newPrims(t, hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "book", func(ctx context.Context, in struct{ What string }) (string, error) {
			if in.What == "flight" {
				close(entered)
				<-ctx.Done()
				close(told)
			}
			return in.What, nil
		})
	}))
	r, err := p.Start(ctx, "saga", false)
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	if _, err := p.Cancel(ctx, r.ID); err != nil { // final: the attempt is told, and its outcome is not waited for
		t.Fatal(err)
	}
	<-told
	p.Settle()
	want(t, p.status(r.ID), host.Cancelled)
}
