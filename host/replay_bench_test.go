package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// plan is what testdata/bench is told.
type plan struct {
	Kind    string
	Steps   int
	Beside  int
	Workers int
	Fan     int
}

func newBench(b *testing.B) *hosttest.Host {
	h := hosttest.New(b, hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "echo", func(_ context.Context, i int) (int, error) { return i, nil })
		host.HandleStep(h, "order", func(_ context.Context, o json.RawMessage) (json.RawMessage, error) { return o, nil })
	}))
	if _, err := h.Upload(ctx, "", hosttest.Build(b, "testdata/bench"), host.AllowStep("*")); err != nil {
		b.Fatal(err)
	}
	return h
}

// replayed runs a plan to its end and returns a function that replays it once.
func replayed(b *testing.B, h *hosttest.Host, p plan) func() time.Duration {
	r, err := h.Start(ctx, "bench", p)
	if err != nil {
		b.Fatal(err)
	}
	if end := h.Finish(r.ID); end.Status != host.Completed {
		_, err := h.ResultRaw(ctx, r.ID)
		b.Fatal(end.Status, end.Reason, err)
	}
	return func() time.Duration {
		from := time.Now()
		if err := h.Replay(ctx, r.ID); err != nil {
			b.Fatal(err)
		}
		return time.Since(from)
	}
}

// BenchmarkReplayGo replays runs of a Go guest and reports the cost per step: the replay of a run with steps minus
// that of a run without, divided by the number of steps. The empty run shows the cost of an instance.
func BenchmarkReplayGo(b *testing.B) {
	const steps = 1000
	h := newBench(b)
	empty := replayed(b, h, plan{})
	var waste []time.Duration
	for range 40 {
		waste = append(waste, empty())
	}
	slices.Sort(waste)
	base := waste[len(waste)/2]
	b.Run("empty", func(b *testing.B) {
		for b.Loop() {
			empty()
		}
	})
	for _, place := range []struct {
		name string
		plan plan
	}{{"alone", plan{}}, {"several", plan{Beside: 3}}, {"workers", plan{Workers: 4}}, {"fan", plan{Fan: 5}}} {
		for _, kind := range []string{"sleep", "call", "order", "deadline", "body"} {
			p := place.plan
			p.Kind, p.Steps = kind, steps
			if kind == "body" {
				p.Steps = steps / 5 // each of them makes a copy of the run
			}
			b.Run(fmt.Sprint(place.name, "/", kind), func(b *testing.B) {
				replay := replayed(b, h, p)
				total := time.Duration(0)
				for b.Loop() {
					total += replay()
				}
				b.ReportMetric(float64(total.Nanoseconds()/int64(b.N)-base.Nanoseconds())/float64(p.Steps), "ns/step")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkBodies runs a Go workflow of 1,000 bodies in sequence, with the store in memory: in the workflow's own
// instance, or, for comparison, in copies of it, each of which replays the journal first.
func BenchmarkBodies(b *testing.B) {
	for _, reset := range []string{"auto", "none"} {
		b.Run("reset="+reset, func(b *testing.B) {
			h := hosttest.New(b, hosttest.WithConfig(func(c *host.Config) { c.ResetBy(reset) }))
			if _, err := h.Upload(ctx, "", hosttest.Build(b, "testdata/bench")); err != nil {
				b.Fatal(err)
			}
			steps := 1000
			if reset == "none" {
				steps = 100
			}
			for b.Loop() {
				r, err := h.Start(ctx, "bench", plan{Kind: "body", Steps: steps})
				if err != nil {
					b.Fatal(err)
				}
				if end := h.Finish(r.ID); end.Status != host.Completed {
					b.Fatal(end.Status, end.Reason)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*steps), "µs/body")
		})
	}
}
