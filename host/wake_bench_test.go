package host_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// tickerWakes is how often the tickers sleep before they continue as new; testdata/ticker has the same constant.
const tickerWakes = 8

// ticker is testdata/ticker in a few instructions.
func ticker(step bool) []byte {
	m := wasmgen.New(0)
	for i := range tickerWakes {
		m.Text(fmt.Sprint("s", i)).I64(1).Call(abi.FnSleep).Drop()
		if step {
			m.Text(fmt.Sprint("step", i)).Text("host/noop").Text("1").Text("").I32(512).I32(512).Call(abi.FnStepDo).Drop()
		}
	}
	m.Text("1").Text("").Call(abi.FnContinueAsNew)
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

// withNoop registers a step that does nothing.
func withNoop(h *host.Host) {
	host.HandleStep(h, "noop", func(context.Context, int) (int, error) { return 1, nil })
}

// wakeReset compares the cost of modules whose instances cannot be reused: "none" treats all modules so.
var wakeReset = flag.String("wake-reset", "auto", "how BenchmarkWake makes instances new: auto, scan, drop, copy or none")

var wakeProfile = flag.String("wake-profile", "", "write a CPU profile of what BenchmarkWake measures to this file")

// profiled takes the requested profile until stop is called.
func profiled(b *testing.B) (stop func()) {
	b.Helper()
	if *wakeProfile == "" {
		return func() {}
	}
	f, err := os.Create(*wakeProfile)
	if err != nil {
		b.Fatal(err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		b.Fatal(err)
	}
	return func() {
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// wakes counts the wakes of completed iterations. A commit has several if the host is so late that a sleep is over
// before the run can sleep.
func wakes(b *testing.B, h *host.Host) (n float64) {
	b.Helper()
	for r, err := range h.Runs(ctx, host.Query{}) {
		if err != nil {
			b.Fatal(err)
		}
		n += tickerWakes * float64(r.Iteration)
	}
	return n
}

// BenchmarkWake has 256 runs sleep for a millisecond repeatedly, with and without a step after each sleep. An
// operation is a synced commit, or two with a step: one wake, unless the host is late (see wakes).
func BenchmarkWake(b *testing.B) {
	const runs = 256
	for _, guest := range []string{"small", "go"} {
		for _, step := range []bool{false, true} {
			b.Run(fmt.Sprintf("guest=%s/step=%v", guest, step), func(b *testing.B) {
				wasm, input, perWake := ticker(step), "", uint64(1)
				if step {
					input, perWake = "host/noop", 2
				}
				if guest == "go" {
					wasm = hosttest.Build(b, "testdata/ticker")
				}
				cfg := host.Config{}
				cfg.ResetBy(*wakeReset)
				h := openReal(b, cfg, withNoop)
				if _, err := h.Upload(ctx, "ticker", wasm, host.AllowStep("*")); err != nil {
					b.Fatal(err)
				}
				for range runs {
					if _, err := h.Start(ctx, "ticker", input); err != nil {
						b.Fatal(err)
					}
				}
				poll := time.NewTicker(time.Millisecond)
				defer poll.Stop()
				before := wakes(b, h)
				stop := profiled(b)
				b.ResetTimer()
				begin := h.Stats().Commits
				for last := begin; h.Stats().Commits-begin < uint64(b.N)*perWake; {
					<-poll.C
					if now := h.Stats().Commits; now == last && h.Stats().Timers == 0 && h.Stats().Runs == 0 {
						for r, err := range h.Runs(ctx, host.Query{Limit: 1}) {
							_, err2 := h.ResultRaw(ctx, r.ID)
							b.Fatalf("%s %v %v", r.Status, err, err2)
						}
					} else {
						last = now
					}
				}
				b.StopTimer()
				stop()
				b.ReportMetric((wakes(b, h)-before)/float64(h.Stats().Commits-begin), "wakes/commit")
				b.ReportMetric(float64(h.Stats().Commits-begin)/b.Elapsed().Seconds(), "commits/s")
			})
		}
	}
}

// BenchmarkStart starts an empty workflow and waits for its result, sequentially; every commit is synced.
func BenchmarkStart(b *testing.B) {
	h := newReal(b, withNoop)
	if _, err := h.Upload(ctx, "empty", wasmgen.New(0).I32(0).Export(abi.ExportRun).Bytes()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r, err := h.Start(ctx, "empty", 1)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := h.ResultRaw(ctx, r.ID); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkS83_LongRun has one run of 10,000 steps, and compares the time of its last thousand with its first
// thousand.
func BenchmarkS83_LongRun(b *testing.B) {
	const steps, part = 10_000, 1000
	h := newReal(b, withNoop)
	var at [steps]time.Time
	host.HandleStep(h, "echo", func(_ context.Context, i int) (int, error) {
		at[i] = time.Now()
		return i, nil
	})
	if _, err := h.Upload(ctx, "", hosttest.Build(b, "testdata/bench"), host.AllowStep("*")); err != nil {
		b.Fatal(err)
	}
	var first, last time.Duration
	for b.Loop() {
		r, err := h.Start(ctx, "bench", plan{Kind: "call", Steps: steps})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := h.ResultRaw(ctx, r.ID); err != nil {
			b.Fatal(err)
		}
		first += at[part].Sub(at[0])
		last += at[steps-1].Sub(at[steps-1-part])
	}
	b.ReportMetric(float64(first.Microseconds())/float64(b.N*part), "µs/step-at-first")
	b.ReportMetric(float64(last.Microseconds())/float64(b.N*part), "µs/step-at-last")
	b.ReportMetric(float64(last)/float64(first), "last/first")
}
