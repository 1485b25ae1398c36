package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// newPaths is a host with the workflows of testdata/paths.
func newPaths(t *testing.T, opts ...hosttest.Option) *hosttest.Host {
	t.Helper()
	h := hosttest.New(t, append(opts, hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "echo", func(_ context.Context, i int) (int, error) { return i, nil })
	}))...)
	if _, err := h.Upload(ctx, "", hosttest.Build(t, "testdata/paths"), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	return h
}

// finished runs a workflow to its end, replays it, and returns its result.
func finished[T any](t *testing.T, h *hosttest.Host, workflow, id string, in any) (v T) {
	t.Helper()
	if _, err := h.Start(ctx, workflow, in, host.WithRunID(id)); err != nil {
		t.Fatal(err)
	}
	r := h.Finish(id)
	b, err := h.ResultRaw(ctx, r.ID)
	if err != nil {
		t.Fatal(r.Status, r.Reason, err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if err := h.Replay(ctx, r.ID); err != nil {
		t.Fatal("replay: ", err)
	}
	return v
}

// TestGoQuiet checks what the Go SDK assumes about Go's runtime. With a version of Go in which the SDK does not find
// the timers, waits go through the scheduler, and this test fails.
func TestGoQuiet(t *testing.T) {
	want := map[string]bool{"at the beginning": true, "with a timer": false, "after the timer": true,
		"with a timer that nobody waits for": true, "beside a goroutine that can run": false,
		"beside a goroutine that waits": true, "beside a goroutine that was woken": false,
		"while the collector marks": true, "while the collector marks, all is quiet": false, "when it has marked": false,
		"beside a goroutine that sleeps": false, "beside a goroutine that yields": false}
	if got := finished[map[string]bool](t, newPaths(t), "quiet", "q", 0); !reflect.DeepEqual(got, want) {
		t.Fatalf("%v", got)
	}
}

// TestGoTimers has time.AfterFunc and deadlines come due while one goroutine waits for another event.
func TestGoTimers(t *testing.T) {
	for workflow, want := range map[string][]string{
		"after": {"sleep 0 20s", "sleep 1 40s", "sleep 2 1m0s", "timer 0 <nil> 1m1s", "timer 1 <nil> 1m2s",
			"timer 2 <nil> 1m3s", "sleep 3 1m20s", "sleep 4 1m40s"},
		"deadlines": {"<nil> 1m0s", "<nil> 1h1m0s", "context deadline exceeded 1h1m1s", "<nil> 2h1m1s", "<nil> 2h2m1s",
			"<nil> 3h2m1s", "context deadline exceeded 3h2m1s", "<nil> 4h2m1s"},
	} {
		if got := finished[[]string](t, newPaths(t), workflow, "r", 0); !slices.Equal(got, want) {
			t.Errorf("%s: %q", workflow, got)
		}
	}
}

// TestBothPathsOneJournal runs random workflows with direct waits where possible, and again with all waits through
// Go's scheduler: journals, and memory live and in replays, are the same. A third time the garbage collector runs in
// between; its timers may then appear in the journal.
func TestBothPathsOneJournal(t *testing.T) {
	m := &memories{hashes: map[point][32]byte{}}
	var journals [3][][]host.Entry
	for way := range journals {
		h := newPaths(t, hosttest.WithConfig(func(c *host.Config) {
			c.Events.GuestWaits = func(w host.WaitInfo) {
				w.RunID += fmt.Sprint(way)
				m.see(w)
			}
			c.Linger = -1 // each outcome meets a new instance
		}))
		for seed := range workflows() {
			id := fmt.Sprint("walk-", seed)
			finished[[]string](t, h, "walk", id, map[string]any{"Seed": seed, "Busy": way == 1, "Litter": way / 2 * 20})
			var all []host.Entry
			for e, err := range h.Journal(ctx, id, 1) { // 0 holds the input
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, e)
			}
			journals[way] = append(journals[way], all)
		}
	}
	for seed, one := range journals[0] {
		other := journals[1][seed]
		for i := range max(len(one), len(other)) {
			if i >= len(one) || i >= len(other) || !reflect.DeepEqual(one[i], other[i]) {
				t.Errorf("seed %d: of %d and %d entries the %dth differs", seed, len(one), len(other), i)
				break
			}
		}
	}
	if len(m.diffs) > 0 {
		t.Fatalf("memory differs at %d of %d points: %v", len(m.diffs), m.points, m.diffs)
	}
}
