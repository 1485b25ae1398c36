package host_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
)

// spin is a workflow that computes forever.
func spin() *wasmgen.Module { return wasmgen.New(0).While().EndWhile().I32(0) }

// spinning is a host with a run that computes forever. The beginning of its journal is durable, so that it can be
// replayed.
func spinning(t *testing.T) *hosttest.Host {
	t.Helper()
	h := handmade(t, spin(), hosttest.WithConfig(func(c *host.Config) {
		c.MaxFuel, c.MaxSegmentCPU, c.StartLinger = math.MaxInt64/2, time.Hour, time.Millisecond
	}))
	for {
		do(t, h.Signal(ctx, "r", "x", nil)) // which brings a commit
		if r, err := h.Get(ctx, "r"); err != nil || !r.Started.IsZero() {
			do(t, err)
			return h
		}
	}
}

// TestCloseWhileReading closes a host while it replays a run for a query or a check, or asks a module for its
// description. None of these would end by itself.
func TestCloseWhileReading(t *testing.T) {
	for name, read := range map[string]func(h *hosttest.Host) error{
		"query":  func(h *hosttest.Host) error { _, err := h.Query(ctx, "r", "x", nil); return err },
		"replay": func(h *hosttest.Host) error { return h.Replay(ctx, "r") },
		"describe": func(h *hosttest.Host) error {
			m := spin().Drop().Export(abi.ExportDescribe).I32(0).Export(abi.ExportRun)
			_, err := h.Upload(ctx, "d", m.Bytes())
			return err
		},
	} {
		h := spinning(t)
		ended := make(chan error, 1)
		go func() { ended <- read(h) }()
		for h.Stats().Instances < 2 { // until the replay runs beside the run
			select {
			case err := <-ended:
				t.Fatalf("%s: %v", name, err)
			case <-time.After(time.Millisecond):
			}
		}
		soon(t, "Close", func() { do(t, h.Close()) })
		if err := <-ended; err == nil {
			t.Errorf("%s ended without an error", name)
		}
	}
}

// TestReadersEndWithTheirContext ends a query by its caller.
func TestReadersEndWithTheirContext(t *testing.T) {
	h := spinning(t)
	own, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	soon(t, "the query", func() {
		if _, err := h.Query(own, "r", "x", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// toldHost is a host with a run that has cancelled a step whose handler is still running.
func toldHost(t *testing.T, c host.Clock, fake *clock.Fake) *clocked {
	t.Helper()
	k := newClocked(t, c, fake)
	if _, err := k.Start(ctx, "told", 0, host.WithRunID("r")); err != nil {
		t.Fatal(err)
	}
	<-k.begun
	do(t, k.Signal(ctx, "r", "begun", ""))
	until(t, k.Host, "r", func(host.Run) bool { // until the run has cancelled the step and sleeps
		var kinds []store.Kind
		for e := range k.Journal(ctx, "r", 0) {
			kinds = append(kinds, e.Kind)
		}
		return slices.Contains(kinds, store.KindSleep) && slices.Contains(kinds, store.KindWithdraw)
	})
	return k
}

// TestCloseWithToldHandler closes a host while a handler ignores its cancellation.
func TestCloseWithToldHandler(t *testing.T) {
	fake := clock.NewFake(hosttest.Epoch)
	k := toldHost(t, fake, fake)
	soon(t, "Close", func() { do(t, k.Close()) })
}

// countingClock counts how often it is read.
type countingClock struct {
	*clock.Fake
	read atomic.Int64
}

func (c *countingClock) Now() time.Time {
	c.read.Add(1)
	return c.Fake.Now()
}

// quiet checks that a host whose clock stands still settles. On a busy machine this takes a while.
func quiet(t *testing.T, c *countingClock, h *host.Host) {
	t.Helper()
	var n int64
	var m uint64
	for range 100 {
		read, commits := c.read.Load(), h.Stats().Commits
		<-time.After(50 * time.Millisecond)
		n, m = c.read.Load()-read, h.Stats().Commits-commits
		if n <= 20 && m <= 2 {
			return
		}
	}
	t.Errorf("the host reads its clock %d times and makes %d commits while nothing happens", n, m)
}

// TestTerminateWithToldHandler terminates and replaces a run while one of its handlers ignores its cancellation.
func TestTerminateWithToldHandler(t *testing.T) {
	c := &countingClock{Fake: clock.NewFake(hosttest.Epoch)}
	k := toldHost(t, c, c.Fake)
	quiet(t, c, k.Host)
	soon(t, "Start", func() {
		_, err := k.Start(ctx, "nap", 1000, host.WithRunID("r"), host.OnConflict(host.ConflictTerminate))
		do(t, err)
	})
	until(t, k.Host, "r", func(r host.Run) bool { return r.Status == host.Sleeping })
	quiet(t, c, k.Host)
	k.close() // its result lands nowhere
	c.Advance(time.Second)
	if got, err := host.Result[string](ctx, k.Host, "r"); got != "slept" || err != nil {
		t.Error(got, err)
	}
	for e, err := range k.Journal(ctx, "r", 0) {
		if e.Name == "slow" || err != nil {
			t.Error(e, err)
		}
	}
}
