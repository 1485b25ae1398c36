package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// newReal is a running host with the machine's clock and data on disk.
func newReal(t testing.TB, register func(*host.Host)) *host.Host {
	t.Helper()
	return openReal(t, host.Config{}, register)
}

func openReal(t testing.TB, cfg host.Config, register func(*host.Host)) *host.Host {
	t.Helper()
	cfg.Dir = t.TempDir()
	shareCache(t, cfg.Dir)
	h, err := host.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if register != nil {
		register(h)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// shareCache lets the hosts of several tests share a cache of compiled modules: under the race detector, compiling a
// Go guest takes half a minute.
func shareCache(t testing.TB, dir string) {
	base, err := os.UserCacheDir()
	if err != nil {
		return // each for itself
	}
	shared := filepath.Join(base, "wfhost-test", "real")
	if err := os.MkdirAll(shared, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(shared, filepath.Join(dir, "cache")); err != nil {
		t.Fatal(err)
	}
}

// until waits until a condition holds for a run.
func until(t *testing.T, h *host.Host, id string, holds func(host.Run) bool) host.Run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	changed, stop := h.Watch(id)
	defer stop()
	for {
		r, err := h.Get(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if holds(r) {
			return r
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("run %s is %s", id, r.Status)
		}
	}
}

// TestRealSleep performs step a, a sleep of a second, and step b, by the machine's clock.
func TestRealSleep(t *testing.T) {
	var effects atomic.Int64
	h := newReal(t, func(h *host.Host) {
		host.HandleStep(h, "effect", func(_ context.Context, name string) (string, error) {
			effects.Add(1)
			return name, nil
		})
	})
	if _, err := h.Upload(ctx, "real", hosttest.Build(t, "testdata/real"), host.AllowStep("effect")); err != nil {
		t.Fatal(err)
	}
	r, err := h.Start(ctx, "real", 1000)
	if err != nil {
		t.Fatal(err)
	}
	asleep := until(t, h, r.ID, func(r host.Run) bool { return r.Status == host.Sleeping })
	if n := effects.Load(); n != 1 {
		t.Fatalf("while it sleeps: %d effects", n)
	}
	noInstances(t, h) // the instance is freed after the commit that shows the sleep
	ended := until(t, h, r.ID, func(r host.Run) bool { return r.Status.Terminal() })
	if v, err := host.Result[string](ctx, h, r.ID); err != nil || v != "ab" || effects.Load() != 2 {
		t.Fatalf("%q %v, %d effects", v, err, effects.Load())
	}
	if ended.Ended.Before(asleep.Wake) || asleep.Wake.Sub(r.Created) < time.Second {
		t.Fatalf("created %v, wake %v, ended %v", r.Created, asleep.Wake, ended.Ended)
	}
	var got []string
	for e, err := range h.Journal(ctx, r.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Name == "b" && e.UnixMs < asleep.Wake.UnixMilli() {
			t.Fatalf("b was called at %d, the deadline is %v", e.UnixMs, asleep.Wake)
		}
		got = append(got, fmt.Sprint(e.Kind, " ", e.Name))
	}
	if order := fmt.Sprint(got); order != "[started real activated  step a step_result  sleep pause timer  step b "+
		"step_result  completed ]" {
		t.Fatal(order)
	}
}

// napModule is a workflow that sleeps for the duration in its input.
func napModule() []byte {
	m := wasmgen.New(0)
	m.Text("nap").I32(1024).I32(1024).I32(64).Call(abi.FnInput).Op(0xa7).Call(abi.FnSleepText).Drop()
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

// TestTimerBesideAStep has a timer come due during an attempt: while the instance lingers, and after that.
func TestTimerBesideAStep(t *testing.T) {
	release := make(chan struct{})
	h := newReal(t, func(h *host.Host) {
		host.HandleStep(h, "slow", func(context.Context, string) (string, error) {
			<-release
			return "", nil
		})
	})
	if _, err := h.UploadAll(ctx, "", hosttest.Build(t, "testdata/real"), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	for _, ms := range []int{100, 1500} {
		r, err := h.Start(ctx, "beside", ms)
		if err != nil {
			t.Fatal(err)
		}
		until(t, h, r.ID, func(r host.Run) bool { return r.Output == 1 })
		for c, err := range h.Output(ctx, r.ID, "", 0) {
			// The entry shows that the timer did not wait for the step. wfhost bench late measures how late it is.
			if late := c.UnixMs - r.Created.UnixMilli() - int64(ms); err != nil || late < 0 {
				t.Errorf("a timer of %d ms beside a step was %d ms early, %v", ms, -late, err)
			}
		}
	}
	close(release)
}
