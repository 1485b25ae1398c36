package host_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestPauseWhileAStepRuns pauses a run whose instance lingers during an attempt: the attempt finishes and is
// journaled, and the workflow does not continue before unpause.
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

// TestCancelWhileAStepRuns cancels a run during an attempt: the context of the attempt is cancelled.
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
	if _, err := p.Cancel(ctx, r.ID); err != nil { // final: the run does not wait for the attempt's outcome
		t.Fatal(err)
	}
	<-told
	p.Settle()
	want(t, p.status(r.ID), host.Cancelled)
}

// TestFarTimerBesideAStep has a timer far in the future come due during an attempt.
func TestFarTimerBesideAStep(t *testing.T) {
	leave := make(chan struct{})
	entered := make(chan struct{}, 1)
	p := newPrims(t, hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "book", func(_ context.Context, in struct{ What string }) (string, error) {
			entered <- struct{}{}
			<-leave
			return in.What, nil
		})
	}), hosttest.WithConfig(func(c *host.Config) { c.Linger = -1 }))
	r, err := p.Start(ctx, "beside", 10)
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	for minute := range 10 { // move the clock by hand: the host does not settle during the attempt
		until(t, p.Host.Host, r.ID, func(r host.Run) bool { return r.Entries >= 3 })
		if got, err := p.Get(ctx, r.ID); err != nil || got.Output != 0 {
			t.Fatalf("it woke in minute %d: %v", minute, err)
		}
		p.Clock.Set(p.Clock.Now().Add(time.Minute))
	}
	until(t, p.Host.Host, r.ID, func(r host.Run) bool { return r.Output == 1 })
	close(leave)
	want(t, result[string](p, r.ID), "flight")
}
