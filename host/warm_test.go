package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/engine/linear"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// thaws counts activations that were thawed, and those that replayed.
type thaws struct{ thawed, replays atomic.Int64 }

func (c *thaws) see(a host.ActivationInfo) {
	switch {
	case a.Thawed:
		c.thawed.Add(1)
	case a.Replayed > 0:
		c.replays.Add(1)
	}
}

// newWarm returns a host with the Go guest of testdata/warm, and the counters of its activations.
func newWarm(t *testing.T, bytes int64) (*hosttest.Host, *thaws) {
	t.Helper()
	const size = 65536
	im := linear.NewImage(make([]byte, size), linear.ResetAuto)
	defer im.Close()
	m := linear.New(im)
	defer m.Free()
	if _, ok := m.Diff(size); !ok {
		t.Skip("this system does not tell which pages were written, so that nothing is frozen")
	}
	c, tries := &thaws{}, 0
	h := hosttest.New(t, hosttest.WithConfig(func(cfg *host.Config) {
		cfg.WarmBytes, cfg.Events.Activation = bytes, c.see
	}), hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "echo", func(_ context.Context, n int) (int, error) { return n, nil })
		host.HandleStep(h, "flaky", func(context.Context, string) (string, error) {
			tries++
			if tries == 1 {
				return "", errors.New("not yet")
			}
			return "done", nil
		})
	}))
	if _, err := h.UploadAll(ctx, "", hosttest.Build(t, "testdata/warm"), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	return h, c
}

// A Go guest that sleeps continues without a replay, with the same results as a replay gives if there is no memory
// for its snapshot, or after a restart or crash. Earlier output is kept, too.
func TestWarm(t *testing.T) {
	for _, c := range []struct {
		name            string
		bytes           int64
		between         func(h *hosttest.Host)
		thawed, replays bool
	}{
		{"warm", 0, func(*hosttest.Host) {}, true, false},
		{"without memory", -1, func(*hosttest.Host) {}, false, true},
		{"restarted", 0, (*hosttest.Host).Reopen, true, true},
		{"crashed", 0, (*hosttest.Host).Crash, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, count := newWarm(t, c.bytes)
			for _, workflow := range []string{"naps", "late"} {
				if _, err := h.Start(ctx, workflow, 4, host.WithRunID(workflow)); err != nil {
					t.Fatal(err)
				}
			}
			h.Advance(2*time.Hour + 30*time.Minute)
			c.between(h)
			h.Advance(200 * time.Hour)
			if got, err := host.Result[string](ctx, h, "naps"); err != nil || got != "0 1 2 3 " {
				t.Errorf("naps: %q, %v", got, err)
			}
			if got, err := host.Result[string](ctx, h, "late"); err != nil || got != "recovered from the bottom" {
				t.Errorf("late: %q, %v", got, err)
			}
			lines := ""
			logs, err := h.Logs(ctx, "naps", 0, 100)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range logs {
				lines += l.Text + "\n"
			}
			if want := "0 ;0 1 ;0 1 2 ;0 1 2 3 ;\n"; lines != want {
				t.Errorf("it has printed %q, want %q", lines, want)
			}
			for _, id := range []string{"naps", "late"} {
				if err := h.Replay(ctx, id); err != nil {
					t.Errorf("%s: %v", id, err)
				}
			}
			if thawed, replays := count.thawed.Load(), count.replays.Load(); (thawed > 0) != c.thawed || (replays > 0) != c.replays {
				t.Errorf("%d activations were thawed, %d replayed", thawed, replays)
			}
		})
	}
}

// A guest whose goroutines wait for Go timers is thawed, too, with the same results as a replay.
func TestWarmTimers(t *testing.T) {
	order := 0 // the timers fire in the order 3 2 1 0; then 0 has no nap, and the others wake in their order
	for _, i := range []int{3, 2, 1, 0, 0, 100, 200, 300} {
		order = 3*order + i
	}
	for workflow, want := range map[string]string{
		"both": fmt.Sprint(order),
		"timers": `"slept 1h30m0s; woken 1h45m0s; context deadline exceeded 2h15m0s; tick 0 3h15m0s; early 3h45m0s; ` +
			`tick 1 4h15m0s; tick 2 5h15m0s; tick 3 6h15m0s; late 6h25m0s; after 6h35m0s; "`,
	} {
		for _, bytes := range []int64{0, -1} {
			h, count := newWarm(t, bytes)
			if _, err := h.Start(ctx, workflow, 4, host.WithRunID("r")); err != nil {
				t.Fatal(err)
			}
			h.Advance(200 * time.Hour)
			if got, err := h.ResultRaw(ctx, "r"); err != nil || string(got) != want {
				t.Errorf("%s: got %s, %v; want %s", workflow, got, err, want)
			}
			if err := h.Replay(ctx, "r"); err != nil {
				t.Error(err)
			}
			if thawed, replays := count.thawed.Load(), count.replays.Load(); (thawed > 0) != (bytes == 0) || (replays > 0) != (bytes < 0) {
				t.Errorf("%s: %d activations were thawed, %d replayed", workflow, thawed, replays)
			}
		}
	}
}

// A snapshot is valid only for the journal that the guest has seen: a retry changes the journal of a failed run, and
// a restart makes a new run from its beginning.
func TestWarmRetry(t *testing.T) {
	h, count := newWarm(t, 0)
	if _, err := h.Start(ctx, "once", 0, host.WithRunID("r")); err != nil {
		t.Fatal(err)
	}
	if r := h.Finish("r"); r.Status != host.Failed {
		t.Fatal(r.Status, r.Reason)
	}
	if err := h.Retry(ctx, "r", 0); err != nil {
		t.Fatal(err)
	}
	h.Advance(2 * time.Hour)
	again, err := h.Host.Restart(ctx, "r", "r2", "flaky")
	if err != nil {
		t.Fatal(err)
	}
	h.Advance(2 * time.Hour)
	for _, id := range []string{"r", again.ID} {
		if got, err := host.Result[string](ctx, h, id); err != nil || got != "done" {
			t.Errorf("%s: %q, %v", id, got, err)
		}
		if err := h.Replay(ctx, id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if count.thawed.Load() == 0 {
		t.Error("nothing was thawed")
	}
}

// The memory for snapshots is limited, and the guests that wake soonest get it.
func TestWarmBound(t *testing.T) {
	const runs = 40
	h, count := newWarm(t, 40<<10) // of some of them
	for i := range runs {
		if _, err := h.Start(ctx, "sleeps", (i+1)*int(time.Minute/time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
	h.Settle()
	h.Advance(runs * time.Minute)
	if thawed, replays := count.thawed.Load(), count.replays.Load(); thawed < 5 || replays < 5 || thawed+replays != runs {
		t.Errorf("%d activations were thawed, %d replayed", thawed, replays)
	}
	for r, err := range h.Runs(ctx, host.Query{}) {
		if err != nil || r.Status != host.Completed {
			t.Fatal(r.ID, r.Status, err)
		}
	}
}

// An unrecovered panic fails a run that was thawed just as any other: the frame of its export does not exist any
// more.
func TestWarmPanic(t *testing.T) {
	for _, bytes := range []int64{0, -1} {
		h, count := newWarm(t, bytes)
		if _, err := h.Start(ctx, "panics", 0, host.WithRunID("r")); err != nil {
			t.Fatal(err)
		}
		h.Advance(2 * time.Hour)
		if _, err := h.ResultRaw(ctx, "r"); err == nil || !strings.Contains(err.Error(), "panic: after the nap") {
			t.Error(err)
		}
		if err := h.Replay(ctx, "r"); err != nil {
			t.Error(err)
		}
		if (count.thawed.Load() > 0) != (bytes == 0) {
			t.Errorf("%d activations were thawed", count.thawed.Load())
		}
	}
}

// A guest that does not return when it is told to freeze is ended. The half line that it printed before is not
// logged: the run is no longer lent to it.
func TestFreezeMisused(t *testing.T) {
	for name, code := range map[string][]byte{"traps": {0x00}, "loops": {0x03, 0x40, 0x0c, 0, 0x0b}, "calls": nil} {
		t.Run(name, func(t *testing.T) {
			h := hosttest.New(t)
			m := wasmgen.New(1)
			m.Text("half").Drop().Drop() // which is at DataAt
			m.I32(64).I32(wasmgen.DataAt).Op(0x36, 2, 0).I32(68).I32(4).Op(0x36, 2, 0)
			m.I32(1).I32(64).I32(1).I32(72).Call("wasi:fd_write").Drop()
			m.Text("nap").I64(1000).Call(abi.FnSleepStart).Drop().I64(-1).Call(abi.FnWaitEvent)
			m.I64(int64(abi.Freeze)).Add().IfZero64().Op(code...).Call(abi.FnNow).Drop().End().I32(0).Export(abi.ExportRun)
			m.I32(0).Export(abi.ExportThaw)
			if _, err := h.Upload(ctx, "w", m.Bytes()); err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				if _, err := h.Start(ctx, "w", nil, host.WithRunID(fmt.Sprint("r", i))); err != nil {
					t.Fatal(err)
				}
			}
			h.Settle()
			for i := range 20 {
				if logs, err := h.Logs(ctx, fmt.Sprint("r", i), 0, 10); err != nil || len(logs) > 0 {
					t.Error(logs, err)
				}
			}
			for i := range 20 {
				if r := h.Finish(fmt.Sprint("r", i)); r.Status != host.Completed {
					t.Error(r.Status, r.Reason)
				}
			}
		})
	}
}
