package host_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestFollowRuns yields the runs of a namespace, and of a workflow, that change, and no others.
func TestFollowRuns(t *testing.T) {
	h := hosttest.New(t)
	other, err := h.Namespace(ctx, "other")
	do(t, err)
	for _, name := range []string{"nap", "rest"} {
		_, err = h.Upload(ctx, name, napModule())
		do(t, err)
	}
	_, err = other.Upload(ctx, "nap", napModule())
	do(t, err)
	type change struct {
		host.Run
		err error
	}
	changes := make(chan change, 100)
	done, cancel := context.WithCancel(ctx)
	began, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for r, err := range h.FollowRuns(done, "nap", func() { close(began) }) {
			changes <- change{r, err}
		}
	}()
	<-began
	_, err = other.Start(ctx, "nap", nil, host.WithRunID("theirs"))
	do(t, err)
	_, err = h.Start(ctx, "rest", nil, host.WithRunID("rests"))
	do(t, err)
	for i := range 3 {
		_, err = h.Start(ctx, "nap", nil, host.WithRunID(fmt.Sprint("r", i)))
		do(t, err)
	}
	h.Settle()
	h.Advance(365 * 24 * time.Hour)
	last := map[string]host.Status{}
	for len(last) < 3 || last["r0"] != host.Completed || last["r1"] != host.Completed || last["r2"] != host.Completed {
		c := <-changes
		if c.err != nil || c.Workflow != "nap" || c.ID == "theirs" {
			t.Fatalf("%+v", c)
		}
		last[c.ID] = c.Status
	}
	cancel()
	<-ended
	if c := <-changes; !errors.Is(c.err, context.Canceled) {
		t.Errorf("the end is %+v", c)
	}
}

// TestFollowRunsTooSlowly does not read while more runs change than are buffered.
func TestFollowRunsTooSlowly(t *testing.T) {
	h := hosttest.New(t)
	_, err := h.Upload(ctx, "nap", napModule())
	do(t, err)
	begun := false
	var given int
	for _, err := range h.FollowRuns(ctx, "", func() {
		begun = true
		_, err := h.Start(ctx, "nap", nil, host.WithRunID("first"))
		do(t, err)
		h.Settle()
	}) {
		given++
		if given == 1 {
			for i := range host.MaxFollowed + 1 {
				_, err := h.Start(ctx, "nap", nil, host.WithRunID(fmt.Sprint(i)))
				do(t, err)
			}
			continue
		}
		if err != nil && !errors.Is(err, host.ErrBusy) {
			t.Fatal(err)
		}
	}
	if !begun || given < host.MaxFollowed {
		t.Error("given are", given)
	}
}
