package wasmtime

import (
	"context"
	"flag"
	"path/filepath"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

var workflows = flag.Int("engines.n", 8, "how many random workflows are replayed on all engines")

// TestVerifyEngines replays random Go workflows on the three engines: final memory and results are equal, and each
// wait is found in the journal.
func TestVerifyEngines(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	h, err := host.Open(ctx, host.Config{Dir: dir, SkipSleeps: true})
	if err != nil {
		t.Fatal(err)
	}
	run, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- h.Run(run) }()
	if _, err := h.Upload(ctx, "random", hosttest.Build(t, filepath.Join("..", "testdata", "random"))); err != nil {
		t.Fatal(err)
	}
	for seed := range *workflows {
		r, err := h.Start(ctx, "random", seed)
		if err == nil {
			_, err = h.ResultRaw(ctx, r.ID)
		}
		if err != nil {
			t.Fatal(seed, err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(host.Engines(), Name) {
		t.Fatal(host.Engines())
	}
	r, err := host.Verify(ctx, dir, host.Config{}, host.VerifyOptions{Engines: host.Engines()})
	if err != nil || !r.Sound() || r.Replayed != int64(*workflows) || len(r.Engines) != 3 {
		t.Fatalf("%+v %v", r, err)
	}
	t.Logf("%d workflows with %d entries on %q", r.Replayed, r.Entries, r.Engines)
}
